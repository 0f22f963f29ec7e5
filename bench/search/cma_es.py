"""CMA-ES of the package cmaes: a normal distribution over the variables moves to where trials are
good and learns their shape. It learns by generations, and ends when its own tests say so."""

import numpy
from cmaes import CMA

from afflux_search import arguments, converse


class CmaEs:
    def __init__(self, variables, seed, earlier):
        self.variables = variables
        # All variables from 0 to 1, starting from the middle.
        ranges = numpy.array([[0.0, 1.0]] * len(variables))
        # Randomness that starts anew must not repeat what was drawn in an earlier life.
        self.model = CMA(
            mean=numpy.full(len(variables), 0.5), sigma=0.3, bounds=ranges, seed=seed + earlier
        )
        self.generation = []

    def ask(self, id):
        if self.model.should_stop():
            return f"CMA-ES has converged after {self.model.generation} generations"
        parts = self.model.ask()
        return {
            variable.name: variable.at(float(part))
            for variable, part in zip(self.variables, parts)
        }

    def tell(self, told):
        parts = [variable.part(told.values[variable.name]) for variable in self.variables]
        # Only the order of losses matters, so a fault is simply the worst.
        self.generation.append((numpy.array(parts), told.loss))
        if len(self.generation) == self.model.population_size:
            self.model.tell(self.generation)
            self.generation = []


if __name__ == "__main__":
    converse(arguments(__doc__).parse_args(), CmaEs)

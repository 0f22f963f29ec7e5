"""Random trials: the least that a search program can be. Needs no package; copy it to begin."""

import random

from afflux_search import arguments, converse


class RandomSearch:
    def __init__(self, variables, seed, earlier):
        self.variables = variables
        # Randomness that starts anew must not repeat what was drawn in an earlier life.
        self.random = random.Random(seed + earlier)

    def ask(self, id):
        return {variable.name: variable.at(self.random.random()) for variable in self.variables}

    def tell(self, told):
        """Learns nothing: chance does not."""


if __name__ == "__main__":
    converse(arguments(__doc__).parse_args(), RandomSearch)

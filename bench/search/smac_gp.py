"""SMAC with a Gaussian process: a Sobol design first, then always the trial with the greatest
expected improvement. Its answers take longer the more trials it knows."""

import logging
import tempfile
from pathlib import Path

from ConfigSpace import Configuration, ConfigurationSpace, Float
from smac import BlackBoxFacade, Scenario
from smac.runhistory import StatusType, TrialInfo, TrialValue

from afflux_search import arguments, converse


class Smac:
    def __init__(self, variables, seed, folder, design):
        self.space = ConfigurationSpace(seed=seed)
        self.space.add(
            *[
                Float(variable.name, (variable.low, variable.high), log=variable.log)
                for variable in variables
            ]
        )
        # Afflux has the budget, so SMAC has none.
        scenario = Scenario(
            self.space, deterministic=True, n_trials=1_000_000, seed=seed, output_directory=folder
        )
        self.model = BlackBoxFacade(
            scenario,
            lambda config, seed: None,
            initial_design=BlackBoxFacade.get_initial_design(scenario, n_configs=design),
            overwrite=True,
            logging_level=logging.WARNING,
        )
        self.asked = {}

    def ask(self, id):
        self.asked[id] = self.model.ask()
        return {name: float(value) for name, value in self.asked[id].config.items()}

    def tell(self, told):
        info = self.asked.pop(told.id, None)
        if info is None:
            # Of an earlier life. SMAC's trials have a seed of 0 where it takes them for exact.
            info = TrialInfo(Configuration(self.space, values=told.values), seed=0)
        status = StatusType.CRASHED if told.failed else StatusType.SUCCESS
        self.model.tell(info, TrialValue(cost=told.loss, status=status), save=False)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--design", type=int, default=8, help="trials of the Sobol design")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        converse(
            options,
            # Randomness that starts anew must not repeat what was drawn in an earlier life.
            lambda variables, seed, earlier: Smac(
                variables, seed + earlier, Path(folder), max(options.design - earlier, 0)
            ),
        )

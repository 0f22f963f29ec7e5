"""Tree-structured Parzen estimators (TPE) of Optuna: good and bad trials are modelled apart, and
the next trial is one that is likely among the good and unlikely among the bad."""

import optuna

from afflux_search import arguments, converse


class Tpe:
    def __init__(self, variables, seed, earlier):
        # A sampler that starts anew must not repeat what it drew in its earlier life.
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=8, multivariate=True, constant_liar=True, seed=seed + earlier
        )
        self.study = optuna.create_study(sampler=sampler)
        self.space = {
            variable.name: optuna.distributions.FloatDistribution(
                variable.low, variable.high, log=variable.log
            )
            for variable in variables
        }
        self.asked = {}

    def ask(self, id):
        self.asked[id] = self.study.ask(self.space)
        return self.asked[id].params

    def tell(self, told):
        state = optuna.trial.TrialState.FAIL if told.failed else optuna.trial.TrialState.COMPLETE
        value = None if told.failed else told.loss
        if told.id in self.asked:
            self.study.tell(self.asked.pop(told.id), value, state=state)
        else:
            self.study.add_trial(
                optuna.trial.create_trial(
                    state=state, value=value, params=told.values, distributions=self.space
                )
            )


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    converse(arguments(__doc__).parse_args(), Tpe)

"""What the search programs of this folder share: the protocol, and what they optimise.

Needs Python 3.10 or newer, and nothing besides. See README.md for the protocol.
"""

import argparse
import json
import math
import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """One dimension of the search; on a log scale, equal ratios are equally far apart."""

    name: str
    low: float
    high: float
    log: bool = False

    def at(self, part):
        """The value at `part` of the range, from 0 to 1."""
        part = min(max(part, 0.0), 1.0)
        if self.log:
            value = math.exp(math.log(self.low) + part * math.log(self.high / self.low))
        else:
            value = self.low + part * (self.high - self.low)
        # Rounding may lead out of a range by one unit of the last place.
        return min(max(value, self.low), self.high)

    def part(self, value):
        """Where in the range `value` lies, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Told:
    """What a trial showed."""

    id: int  # of the trial, as this program chose it
    values: dict  # of its variables, by name
    loss: float  # less is better; a fault has a loss above all that were seen
    failed: bool


def arguments(about):
    """The command line that all programs share."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--rule", action="store_true", help="search the one rule <m, b, gap>, not (window, gap)"
    )
    parser.add_argument("--trials", type=int, default=0, help="finish after so many; 0: never")
    return parser


def space(limits, rule):
    """The variables of a trial, within the limits that Afflux gives."""
    if rule:
        return [
            Variable("m", *limits["m"]),
            Variable("b", *limits["b"]),
            Variable("gap_us", *limits["gap_us"]),
        ]
    # A gap of more than about one ack_ewma starves the path, so there is little beyond it.
    return [Variable("window", *limits["window"], log=True), Variable("gap_of_ack", 0.0, 1.2)]


def converse(options, start):
    """Answers Afflux until it is done.

    `start(variables, seed, earlier)` gives an optimiser; `earlier` is the number of trials of an
    earlier life, which it is told at once. The optimiser has `ask(id)`, which gives the values of
    the variables by name, or a text if it has nothing more to try; and `tell(told)`.
    """
    # Whatever a library prints goes to people; only answers go to Afflux.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    optimiser, names, next_id, worst = None, [], 0, 0.0
    for line in sys.stdin:
        said = json.loads(line)
        if "hello" in said:
            hello = said["hello"]
            if hello["protocol"] != 1:
                sys.exit(f"this program speaks protocol 1, not {hello['protocol']}")
            variables = space(hello["limits"], options.rule)
            names = [variable.name for variable in variables]
            optimiser = start(variables, hello["seed"], hello["earlier"])
        elif "tell" in said:
            told = read(said["tell"], names, worst)
            worst = max(worst, told.loss)
            next_id = max(next_id, told.id + 1)
            optimiser.tell(told)
        elif "ask" in said:
            answer, next_id = propose(optimiser, options, said["ask"], next_id)
            try:
                print(json.dumps(answer), file=answers, flush=True)
            except BrokenPipeError:
                return


def read(tell, names, worst):
    """A tell, as an optimiser wants it."""
    failed = "fault" in tell
    if failed:
        loss = worst + abs(worst) + 1.0
    else:
        loss = tell["cost"] if "cost" in tell else -tell["score"]
    return Told(tell["id"], {name: tell["trial"][name] for name in names}, loss, failed)


def propose(optimiser, options, most, next_id):
    """The answer to an ask for `most` trials, and the id of the next trial."""
    trials = []
    while len(trials) < most:
        if options.trials and next_id >= options.trials:
            asked = f"{options.trials} trials were made"
        else:
            asked = optimiser.ask(next_id)
        if isinstance(asked, str):
            return ({"trials": trials} if trials else {"finished": asked}), next_id
        # Finer than four digits is mere noise, and labels are for people. Limits have fewer.
        values = {name: float(f"{value:.4g}") for name, value in asked.items()}
        trials.append({"id": next_id, **values})
        next_id += 1
    return {"trials": trials}, next_id

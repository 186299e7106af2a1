"""The most probable list of k tuples: for each tuple that may be its last, the best company that it can have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels.possible_worlds import Ruled

CLOSE = 1e-12  # logarithms that differ by less belong to the same probability


class Rules(NamedTuple):
    """What is known of each rule; a tuple without one is a rule of its own."""

    sums: Floats  # 0 at first: of its members so far
    likeliest: Floats  # 0 at first: the highest probability among them
    who: Ints  # the member that has it
    most: Floats  # the highest among all members, whether they came yet or not


class Company(NamedTuple):
    """The k rules that it pays most to have in a list, best first; there is room for one more."""

    rules: Ints
    gains: Floats


@kernel
def gather(ruled: Ruled, owners: Ints, rules: Rules) -> None:
    """Find the highest probability in each rule."""
    for i in range(owners.size):
        rules.most[owners[i]] = max(rules.most[owners[i]], ruled.probabilities[i])


@kernel
def gain_of(likeliest: float, total: float) -> float:
    """What a list gains, in logarithms, if it has the rule's likeliest member instead of none."""
    return np.log(likeliest) - np.log(1.0 - total) if total < 1.0 else np.inf


@kernel
def likeliest_list(ruled: Ruled, owners: Ints, rules: Rules, company: Company, k: int, members: Ints) -> int:
    """Write the members of the most probable list of exactly k tuples; return how many were looked at.

    A list is a world's top k if all its members exist and, of every other rule, no member better than the list's last
    does. So once the last is chosen, the rules are independent: having rule r changes the list's probability by the
    factor ``likeliest / (1 - sum)``, and the k - 1 rules with the largest are the best company. These factors only grow
    from one tuple to the next, so that a rule left behind never comes back by itself. Whatever the list, a rule cannot
    contribute more than ``max(most, 1 - sum)``; when the product of these is below the best list found, none follows.
    """
    best = -np.inf
    absent = 0.0  # the logarithm of the chance that no rule has a better tuple, rules that surely have one apart
    bound = 0.0
    sure = 0
    count = 0  # rules in company
    for i in range(owners.size):
        rule, p = owners[i], ruled.probabilities[i]
        # A list that ends here.
        value = np.log(p) + absent - (np.log(1.0 - rules.sums[rule]) if rules.sums[rule] < 1.0 else 0.0)
        chosen, sure_ones = 0, 0
        for place in range(count):
            other = company.rules[place]
            if other != rule and chosen < k - 1:
                chosen += 1
                if company.gains[place] == np.inf:
                    value += np.log(rules.likeliest[other])
                    sure_ones += 1
                else:
                    value += company.gains[place]
        if chosen == k - 1 and sure_ones == sure and value > best + CLOSE:
            best = value
            members[k - 1] = i
            at = 0
            for place in range(count):
                other = company.rules[place]
                if other != rule and at < k - 1:
                    members[at] = rules.who[other]
                    at += 1
        # From here on it is one of the better ones.
        before, now = rules.sums[rule], ruled.sums[i]
        if before > 0.0:
            bound -= np.log(max(rules.most[rule], 1.0 - before))
            absent -= np.log(1.0 - before) if before < 1.0 else 0.0
        bound += np.log(max(rules.most[rule], 1.0 - now))
        if now < 1.0:
            absent += np.log(1.0 - now)
        elif before < 1.0:
            sure += 1
        rules.sums[rule] = now
        if p > rules.likeliest[rule]:
            rules.likeliest[rule] = p
            rules.who[rule] = i
        gain = gain_of(rules.likeliest[rule], now)
        at = count
        for place in range(count):
            if company.rules[place] == rule:
                at = place
                break
        if at == count:
            count += 1
        while at > 0 and company.gains[at - 1] < gain:
            company.rules[at], company.gains[at] = company.rules[at - 1], company.gains[at - 1]
            at -= 1
        company.rules[at], company.gains[at] = rule, gain
        count = min(count, k)
        if bound < best - CLOSE or sure > k:
            return i + 1
    return owners.size

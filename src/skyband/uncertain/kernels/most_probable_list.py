"""The most probable list of k tuples: for each tuple that may be its last, find the best other members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels.possible_worlds import Ruled

CLOSE = 1e-12  # logarithms that differ by less are equal


class Rules(NamedTuple):
    """State per rule. A tuple without a rule is a separate rule."""

    sums: Floats  # sum over its members so far, initially 0
    likeliest: Floats  # highest probability of its members so far, initially 0
    who: Ints  # the member with this probability
    most: Floats  # highest probability of all its members


class Company(NamedTuple):
    """The k rules with the largest gain for a list, best first, and space for one more."""

    rules: Ints
    gains: Floats


@kernel
def gather(ruled: Ruled, owners: Ints, rules: Rules) -> None:
    """Find the highest probability in each rule."""
    for i in range(owners.size):
        rules.most[owners[i]] = max(rules.most[owners[i]], ruled.probabilities[i])


@kernel
def gain_of(likeliest: float, total: float) -> float:
    """Return the log gain of a list that contains the rule's most probable member instead of none."""
    return np.log(likeliest) - np.log(1.0 - total) if total < 1.0 else np.inf


@kernel
def find_list(ruled: Ruled, owners: Ints, rules: Rules, company: Company, k: int, members: Ints) -> int:
    """Write the members of the most probable list of exactly k tuples. Return the number of tuples visited.

    A list is a world's top k if all its members exist and, for every other rule, no member better than the list's last
    tuple exists. So for a given last tuple, the rules are independent: a member of rule r changes the list's
    probability by the factor ``likeliest / (1 - sum)``, and the k - 1 rules with the largest factors are the best ones.
    These factors never decrease, so a rule that is not among the k best can only return with a new member. In any list,
    a rule contributes at most ``max(most, 1 - sum)``. When the product of these is below the best list found, the
    search ends.
    """
    best = -np.inf
    absent = 0.0  # log probability that no rule has a better tuple, without the rules that certainly have one
    bound = 0.0
    sure = 0
    count = 0  # number of rules in `company`
    for i in range(owners.size):
        rule, p = owners[i], ruled.probabilities[i]
        # The best list that ends with this tuple.
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
        # For all following tuples, this tuple is a better one.
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

"""Whether predicted times put plans in the order of the measured ones."""
import itertools
import math


def pairs_apart(times, share):
    """Pairs of indices whose times differ by at least `share` of the shorter one."""
    return [(i, j) for i, j in itertools.combinations(range(len(times)), 2)
            if max(times[i], times[j]) >= (1 + share) * min(times[i], times[j])]


def kendall_tau(predicted, measured, share):
    """Kendall's tau over the pairs whose predicted times are `share` apart, and the number of these pairs.

    A pair counts 1 if it is measured in the predicted order, -1 if in the other, and 0 if measured as equal.
    """
    pairs = pairs_apart(predicted, share)
    if not pairs:
        raise ValueError(f"no two of {len(predicted)} predicted times are {100 * share:g} % apart")

    def sign(times, i, j):
        return (times[i] > times[j]) - (times[i] < times[j])

    return sum(sign(predicted, i, j) * sign(measured, i, j) for i, j in pairs) / len(pairs), len(pairs)


def distance_from_best(measured, pick):
    """By how much the time at index `pick` is above the least, relative to it."""
    return measured[pick] / min(measured) - 1


def thin(times, share):
    """Indices of ascending times, the first one and each that is at least `share` above the last one taken."""
    taken = [0]
    for i in range(1, len(times)):
        if times[i] >= (1 + share) * times[taken[-1]]:
            taken.append(i)
    return taken


def choose_spread(times, count, share, least_share=0.002):
    """At most `count` indices of ascending times, from the first on, each `share` above the one before.

    Where there are fewer, the share is halved, down to `least_share`. Where there are more, those whose logarithms are nearest to
    evenly spaced ones stay, the first and the last among them.
    """
    taken = thin(times, share)
    while len(taken) < count and share > least_share:
        share = max(least_share, share / 2)
        taken = thin(times, share)
    if len(taken) <= count:
        return taken
    low, high = math.log(times[taken[0]]), math.log(times[taken[-1]])
    chosen, begin = [], 0
    for k in range(count):
        wanted = low + (high - low) * k / (count - 1)
        end = len(taken) - (count - k) + 1  # as many are left for those to come
        at = min(range(begin, end), key=lambda i: abs(math.log(times[taken[i]]) - wanted))
        chosen.append(taken[at])
        begin = at + 1
    return chosen

"""Statistics of errors of times: their mean and spread, a constant share of the peak, pairs in the wrong order."""
import itertools
import math
import statistics


def group_by(items, key):
    """Lists of the items by their keys, in the order of first appearance."""
    found = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def summarize(errors):
    """The number of errors, the mean of their sizes, their mean, and their standard deviation."""
    return {"runs": len(errors), "mean_absolute": statistics.mean(map(abs, errors)), "mean": statistics.mean(errors),
            "sigma": statistics.stdev(errors) if len(errors) > 1 else 0.0}


def flat_errors(rows):
    """The share of the peak that fits the rows best, and the errors of the times that it gives.

    It is the geometric mean of the published shares, so the logarithms of the ratios have the mean 0.
    """
    shares = [row.ratio(row.at_peak) for row in rows]
    share = math.exp(statistics.mean(map(math.log, shares)))
    return share, [of / share - 1 for of in shares]


def misordered(results):
    """Pairs of plans of one question that were measured in the other order than simulated, and the number of pairs compared.

    `results` are rows and simulated figures. A pair: the row that is simulated to be faster, the other, by which part the other is
    simulated to take longer, and by which part it took less. Equal times are in no order.
    """
    wrong, compared = [], 0
    asked = [(row, figure) for row, figure in results if row.question]
    for group in group_by(asked, lambda r: (r[0].table, r[0].model, r[0].device, r[0].unit, r[0].question)).values():
        first = group[0][0]  # times are in units of its published one
        times = [(row, first.ratio(figure), first.ratio(row.published)) for row, figure in group]
        for a, b in itertools.combinations(times, 2):
            faster, slower = sorted((a, b), key=lambda entry: entry[1])
            compared += 1
            if faster[2] > slower[2]:
                wrong.append((faster[0], slower[0], slower[1] / faster[1] - 1, 1 - slower[2] / faster[2]))
    return sorted(wrong, key=lambda pair: pair[2]), compared


def misranked(pairs, apart=0.1):
    """Pairs of rows, the slower one first, that the simulation puts in the other order, and the number of pairs compared.

    `pairs` are rows and simulated figures. Those of one table and kind of device are compared by their shares of the peak, so
    that models of different sizes can be; and only where the published shares are apart by more than `apart`.
    """
    wrong, compared = [], 0
    for group in group_by(pairs, lambda pair: (pair[0].table, pair[0].device, pair[0].unit)).values():
        published = [(row, row.ratio(row.at_peak), row.ratio(row.at_peak) / row.ratio(figure)) for row, figure in group]
        for a, b in itertools.combinations(published, 2):
            slower, faster = sorted((a, b), key=lambda entry: entry[1])
            if faster[1] > slower[1] * (1 + apart):
                compared += 1
                if faster[2] <= slower[2]:
                    wrong.append((slower[0], faster[0]))
    return wrong, compared

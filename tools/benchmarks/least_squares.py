"""Weighted nonlinear least squares for a few numbers, by Gauss-Newton with numeric derivatives. Pure Python.

A function gives the residuals r(x) at numbers x; with weights w, sum_i w_i r_i(x)^2 is made least. All numbers are positive, and
steps are taken in their logarithms, so derivatives are relative: dr / d log x.
"""
import math
import statistics

TOLERANCE = 1e-4  # of a number, relative
LITTLE = 5e-3  # of the sum of squares
FARTHEST = math.log(1e9)  # half an interval: such a number is not determined
HALVINGS = 3  # of a step that lessens nothing
FAR = math.log(2)  # the longest step of a number

# Two-sided 95 % points of Student's t by degrees of freedom; those between two entries take the smaller one's.
STUDENT = [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (6, 2.447), (7, 2.365), (8, 2.306), (9, 2.262), (10, 2.228),
           (12, 2.179), (15, 2.131), (20, 2.086), (30, 2.042), (60, 2.000), (120, 1.980)]


def student_95(freedom):
    """Two-sided 95 % point of Student's t."""
    return [point for least, point in STUDENT if least <= freedom][-1] if freedom >= 1 else math.inf


def solve(matrix, right):
    """The solution x of matrix x = right, by elimination with pivots; raises ValueError if the matrix is singular."""
    n = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    scale = max(abs(value) for row in matrix for value in row)
    for i in range(n):
        pivot = max(range(i, n), key=lambda j: abs(rows[j][i]))
        if abs(rows[pivot][i]) <= 1e-12 * scale:
            raise ValueError("the residuals do not depend on one of the numbers, or on two of them in the same way")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(i + 1, n):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i])]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return x


def normal_matrix(jacobian, weights):
    n = len(jacobian[0])
    return [[sum(w * row[a] * row[b] for w, row in zip(weights, jacobian)) for b in range(n)] for a in range(n)]


def newton_step(jacobian, residuals, weights):
    """The step that makes the weighted squares of the linearised residuals least."""
    right = [-sum(w * row[a] * r for w, row, r in zip(weights, jacobian, residuals)) for a in range(len(jacobian[0]))]
    return solve(normal_matrix(jacobian, weights), right)


def sum_squares(residuals, weights):
    return sum(w * r * r for w, r in zip(weights, residuals))


def differentiate(function, logs, delta):
    """dr_i / d log x_a by central differences: forward ones mislead where a simulated time has a corner."""
    columns = []
    for a in range(len(logs)):
        ahead, behind = (function([math.exp(v + sign * delta * (b == a)) for b, v in enumerate(logs)]) for sign in (1, -1))
        columns.append([(p - m) / (2 * delta) for p, m in zip(ahead, behind)])
    return [list(row) for row in zip(*columns)]


def bounded_step(jacobian, residuals, weights, logs, bounds):
    """The Newton step of the numbers that it does not move out of their bounds; the others go to their bound, and stay there.

    One number after another is held: first the one that would leave by the most.
    """
    held = {}
    while len(held) < len(logs):
        free = [a for a in range(len(logs)) if a not in held]
        there = [r + sum(row[a] * step for a, step in held.items()) for row, r in zip(jacobian, residuals)]
        step = dict(zip(free, newton_step([[row[a] for a in free] for row in jacobian], there, weights)))
        outside = {a: max(bounds[a][0] - (logs[a] + step[a]), logs[a] + step[a] - bounds[a][1]) for a in free}
        worst = max(free, key=outside.get)
        if outside[worst] <= 0:
            return [held.get(a, step.get(a)) for a in range(len(logs))]
        low, high = bounds[worst]
        held[worst] = (low if step[worst] < 0 else high) - logs[worst]
    return [held[a] for a in range(len(logs))]


def minimize(function, start, weights, bounds=None, most_steps=12, delta=0.03):
    """Numbers where the weighted squares are least within bounds (pairs), their residuals and their derivatives.

    A step that does not lessen the squares is halved, up to HALVINGS times. Simulated times have corners, so the search ends where
    none of these lessens the squares, where the step is below TOLERANCE, or where the squares lessen by less than LITTLE.
    """
    logs = [math.log(value) for value in start]
    log_bounds = [(math.log(low), math.log(high)) for low, high in bounds] if bounds else [(-math.inf, math.inf)] * len(logs)
    values = lambda logs: [math.exp(v) for v in logs]
    residuals = function(values(logs))
    for _ in range(most_steps):
        jacobian = differentiate(function, logs, delta)
        step = bounded_step(jacobian, residuals, weights, logs, log_bounds)
        before = sum_squares(residuals, weights)
        longest = max(map(abs, step))
        if longest < TOLERANCE:
            break
        for halvings in range(HALVINGS + 1):
            factor = min(1.0, FAR / longest) / 2 ** halvings
            tried = [v + factor * s for v, s in zip(logs, step)]
            new = function(values(tried))
            if sum_squares(new, weights) < before:
                break
        else:
            break
        logs, residuals = tried, new
        if before - sum_squares(residuals, weights) < LITTLE * before:
            break
    return values(logs), residuals, differentiate(function, logs, delta)


def intervals(values, residuals, jacobian, weights):
    """95 % confidence intervals (low, high) of the fitted numbers, from the linearised residuals.

    The weights are scaled to the mean 1, so each row counts as one observation on average.
    """
    mean = statistics.mean(weights)
    weights = [w / mean for w in weights]
    freedom = len(residuals) - len(values)
    if freedom < 1:
        return [(0.0, math.inf)] * len(values)
    variance = sum_squares(residuals, weights) / freedom
    normal = normal_matrix(jacobian, weights)
    found = []
    for a, value in enumerate(values):
        unit = [float(b == a) for b in range(len(values))]
        half = min(FARTHEST, student_95(freedom) * math.sqrt(variance * solve(normal, unit)[a]))
        found.append((value * math.exp(-half), value * math.exp(half)))
    return found


def refit_without(values, residuals, jacobian, weights, left_out, bounds=None):
    """The numbers that fit within bounds if the rows `left_out` (a set of indices) have no weight: one step of the linearised
    residuals. Where the other rows do not determine all numbers, these stay as they are.
    """
    kept = [0.0 if i in left_out else w for i, w in enumerate(weights)]
    logs = [math.log(value) for value in values]
    log_bounds = [(math.log(low), math.log(high)) for low, high in bounds] if bounds else [(-math.inf, math.inf)] * len(logs)
    try:
        step = bounded_step(jacobian, residuals, kept, logs, log_bounds)
    except ValueError:
        return list(values)
    return [value * math.exp(s) for value, s in zip(values, step)]

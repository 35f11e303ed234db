"""Two models that scikit-learn fits. Here they are named arrays, and NumPy applies them.

So their weights are a safetensors file like any other, and nobody has to unpickle anything.
"""

import numpy as np

SMALL = 1e-9  # added to a probability before its logarithm is taken
NEVER = -1e4  # the score of a class that the training images do not have


class LogisticRegression:
    """All shapes are known from the options."""

    def __init__(
        self, *, num_classes=10, in_channels=1, image_size=28, penalty=1.0, iterations=100
    ):
        if penalty <= 0 or iterations < 1:
            raise ValueError("penalty must be above 0, and iterations at least 1")
        self.penalty, self.iterations = penalty, iterations
        self.classes, self.inputs = num_classes, in_channels * image_size * image_size
        self.weight = np.zeros((self.classes, self.inputs), np.float32)
        self.bias = np.zeros(self.classes, np.float32)

    def spec(self):
        """Shape and dtype of each array."""
        return {
            "weight": ((self.classes, self.inputs), "float32"),
            "bias": ((self.classes,), "float32"),
        }

    def fit(self, x, y, seed):
        """Learn from rows of pixels and their labels; the arrays that are the model then."""
        from sklearn.linear_model import LogisticRegression as Estimator

        found = Estimator(C=1 / self.penalty, max_iter=self.iterations, random_state=seed).fit(x, y)
        coefficients, intercepts = found.coef_, found.intercept_
        if len(found.classes_) == 2:  # scikit-learn keeps only the second row of two
            coefficients = np.stack([np.zeros_like(coefficients[0]), coefficients[0]])
            intercepts = np.array([0.0, intercepts[0]])
        weight = np.zeros((self.classes, self.inputs), np.float32)
        bias = np.full(self.classes, NEVER, np.float32)
        weight[found.classes_], bias[found.classes_] = coefficients, intercepts
        return {"weight": weight, "bias": bias}

    def load(self, arrays):
        """Take arrays that fit `spec`; there is nothing else that could be wrong with them."""
        self.weight = arrays.get("weight", self.weight).astype(np.float32)
        self.bias = arrays.get("bias", self.bias).astype(np.float32)

    def scores(self, x):
        return x @ self.weight.T + self.bias  # (B, classes)


class RandomForest:
    """The nodes of all trees one after the other; only fitting decides how many there are."""

    def __init__(self, *, num_classes=10, in_channels=1, image_size=28, trees=100, depth=12):
        if trees < 1 or depth < 1:
            raise ValueError("trees and depth must be at least 1")
        self.trees, self.depth = trees, depth
        self.classes, self.inputs = num_classes, in_channels * image_size * image_size

    def spec(self):
        """Shape and dtype of each array; None: as many as there are nodes."""
        return {
            "feature": ((None,), "int32"),  # the pixel that a node looks at; 0 in a leaf
            "threshold": ((None,), "float64"),  # left if the pixel is not above it
            "left": ((None,), "int32"),  # the node to go to; -1 in a leaf
            "right": ((None,), "int32"),
            "value": ((None, self.classes), "float64"),  # shares of the classes
            "offset": ((self.trees + 1,), "int64"),  # where each tree begins, and the last ends
        }

    def fit(self, x, y, seed):
        """Learn from rows of pixels and their labels; the arrays that are the model then."""
        from sklearn.ensemble import RandomForestClassifier

        found = RandomForestClassifier(self.trees, max_depth=self.depth, random_state=seed)
        grown = [estimator.tree_ for estimator in found.fit(x, y).estimators_]
        offset = np.cumsum([0, *(tree.node_count for tree in grown)])

        def joined(arrays, dtype):
            return np.concatenate(list(arrays)).astype(dtype)

        def children(name):
            pairs = zip(grown, offset[:-1], strict=True)
            nodes = ((getattr(tree, name), begin) for tree, begin in pairs)
            return joined((np.where(node < 0, -1, node + begin) for node, begin in nodes), np.int32)

        value = np.zeros((offset[-1], self.classes))
        value[:, found.classes_] = joined((tree.value[:, 0] for tree in grown), np.float64)
        return {
            "feature": joined((np.maximum(tree.feature, 0) for tree in grown), np.int32),
            "threshold": joined((tree.threshold for tree in grown), np.float64),
            "left": children("children_left"),
            "right": children("children_right"),
            "value": value,
            "offset": offset.astype(np.int64),
        }

    def load(self, arrays):
        """Take arrays that fit `spec`, once they are known to be trees: they may be anybody's."""
        if arrays.keys() != self.spec().keys():
            raise ValueError("a forest needs all of its arrays")
        names = ("feature", "threshold", "left", "right", "value", "offset")
        feature, threshold, left, right, value, offset = (arrays[name] for name in names)
        nodes = len(feature)
        if any(len(array) != nodes for array in (threshold, left, right, value)):
            raise ValueError("its arrays have different numbers of nodes")
        outside = (offset < 0) | (offset > nodes)
        if outside.any() or offset[0] != 0 or offset[-1] != nodes or (np.diff(offset) < 1).any():
            raise ValueError("its trees do not divide the nodes")
        here, end = np.arange(nodes), np.repeat(offset[1:], np.diff(offset))
        leaf = (left == -1) & (right == -1)
        # A child stands after its parent. So every way down ends, and ends in the same tree.
        for child in (left, right):
            if not (leaf | (child > here) & (child < end)).all():
                raise ValueError("a node leads out of its tree, or back")
        if (feature < 0).any() or (feature >= self.inputs).any():
            raise ValueError(f"a node looks at a pixel that is not one of {self.inputs}")
        if (value < 0).any() or not np.allclose(value.sum(1), 1, atol=0.01):
            raise ValueError("the shares of the classes in a node do not add up to 1")
        self.feature, self.left, self.right, self.root = feature, left, right, offset[:-1]
        self.threshold, self.value = threshold.astype(np.float64), value.astype(np.float64)

    def probabilities(self, x):
        """As scikit-learn's predict_proba: the mean over all trees."""
        at = np.repeat(self.root[:, None], len(x), axis=1)  # (trees, B)
        rows = np.arange(len(x))
        while (inner := self.left[at] >= 0).any():
            smaller = x[rows, self.feature[at]] <= self.threshold[at]
            at = np.where(inner, np.where(smaller, self.left[at], self.right[at]), at)
        return self.value[at].mean(0)  # (B, classes)

    def scores(self, x):
        return np.log(self.probabilities(x) + SMALL)

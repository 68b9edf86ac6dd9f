import numpy as np

import rankwolf as rw

rng = np.random.default_rng(0)
signal = rng.standard_normal((2000, 5)) @ rng.standard_normal((5, 300))  # what we want back: rank 5
X = signal + 0.1 * rng.standard_normal(signal.shape)  # noise everywhere,
X[rng.random(X.shape) < 0.05] += 10.0  # gross errors in a twentieth of the entries,
X[rng.random(X.shape) < 0.20] = np.nan  # and a fifth was not observed

fit = rw.decompose(X, rng=0)
print(fit)
print(f"relative error of L: {np.linalg.norm(fit.low_rank[:] - signal) / np.linalg.norm(signal):.4f}")

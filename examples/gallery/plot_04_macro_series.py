"""
Fifty years of the economy, and the quarters that stand out
===========================================================

The United States' macroeconomic series that ship with statsmodels: growth of output, consumption, investment and so on,
quarter by quarter from 1959 to 2009. The common factors are the business cycle. What the factors do not explain are
single quarters in single series.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import rankwolf as rw

table = sm.datasets.macrodata.load_pandas().data
levels = table[["realgdp", "realcons", "realinv", "realgovt", "realdpi", "cpi", "m1"]]
growth = 100 * np.log(levels).diff().dropna()
growth["unemp"] = table["unemp"].diff()
growth["tbilrate"] = table["tbilrate"].diff()
growth = growth.dropna()
when = table.loc[growth.index, "year"] + (table.loc[growth.index, "quarter"] - 1) / 4
standardized = (growth - growth.median()) / (1.4826 * (growth - growth.median()).abs().median())

# %%
# The series have different noise, and a cell is only called an outlier where its score says so.
model = rw.RobustPCA(random_state=0).fit(standardized)
cells = model.score_cells(standardized)
cells = np.asarray(cells)
places = np.argwhere(np.abs(cells) > 5)
for row, column in sorted(places.tolist(), key=lambda place: -abs(cells[place[0], place[1]]))[:8]:
    change = f"{growth.columns[column]:<9} {growth.iloc[row, column]:+6.2f} %"
    print(f"{when.iloc[row]:.2f}  {change}  ({cells[row, column]:+.0f} σ)")

# %%
figure, axes = plt.subplots(2, 1, figsize=(8, 5.5), layout="constrained", sharex=True)
factor = np.asarray(model.transform(standardized))
if model.n_components_:
    axes[0].plot(when, factor[:, 0], color="tab:blue")
axes[0].axhline(0, color="gray", lw=0.5)
axes[0].set(title="the strongest common factor: the business cycle", ylabel="score")
image = axes[1].imshow(
    cells.T,
    aspect="auto",
    cmap="RdBu_r",
    vmin=-10,
    vmax=10,
    extent=(when.iloc[0], when.iloc[-1], len(growth.columns) - 0.5, -0.5),
)
axes[1].set_yticks(range(len(growth.columns)), growth.columns)
axes[1].set(title="what the factors do not explain, in standard deviations of the noise")
figure.colorbar(image, ax=axes[1], shrink=0.8)
plt.show()

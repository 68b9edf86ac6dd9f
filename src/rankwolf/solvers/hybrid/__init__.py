"""The hybrid solver: Frank-Wolfe's directions and proof, a factored local method's speed, one pass a step.

With S eliminated the problem is min F(L) = H(L) + λ_L‖L‖_*, H the Huber loss of P_Ω(M − L): smooth, ∇H = −G with
G = clip(P_Ω(M − L), ±λ_S), Lipschitz constant 1. A step starts from L = U Vᵀ and a basis Q ⊇ span V with more columns:

1. *Rows*, local to a tile (:mod:`.sweep`): u ← u + (G_t V − λ_L u)(w·VᵀV + λ_L I)⁻¹, w the live share of the row.
2. *Directions*, in the same pass: B = X Q and XᵀB for X = L + s·G, one step of subspace iteration on the point X from
   which a proximal gradient step of length s would threshold. The spare columns of Q are probes: outside span V, X is
   s·G, so they turn into the leading singular vectors of G, which are Frank-Wolfe's atoms.
3. *Threshold*, between passes and small (:mod:`.step`): with Ũ an orthonormal basis of B, L⁺ = Ũ·D_sλL(ŨᵀX). All atoms
   with σ > λ_L come in at once; weak ones drop out; the singular vectors that stay below become the next probes. After
   a step that brought some in, three probes are kept for each one that was nearly long enough.
4. *Momentum* on the factors (:mod:`.pace`).

An entry is live when it is observed and not clipped: only there does H bend, with curvature 1. On a low-rank direction,
which is spread over all entries, its curvature is therefore about the live share, of a row in step 1 and of the matrix
in step 3, and steps by its inverse are about Newton's. A row steps three times in a pass: after the first, short step
its curvature is measured, and the others are no longer than that allows. All these steps are bold, that is, they may
overshoot. Only w = s = 1 without momentum cannot; a pass that raised the objective is taken back and repeated that way.

Why it descends: with w = s = 1 the rows' step and step 3 both minimise a majorant of F (H has curvature at most 1) over
a set that contains the present L. For step 3: with Q ⊇ span V the best L with rows in span Q is D_λL(XQ)Qᵀ, and its
columns lie in span B, so the minimiser over columns in span B is at least as good. Why the limit is the global optimum:
where σ₁(G) > λ_L on the probes, step 3 lowers F by at least ½(σ₁ − λ_L)², Frank-Wolfe's argument with the step 1 of a
smooth function; the probes are a subspace iteration on G, which does not stop short of σ₁; and where σ₁(G) = λ_L, the
certificate closes.

Where things are: :mod:`.settings` has the constants of every heuristic, :mod:`.state` what is carried from pass to
pass, :mod:`.sweep` the pass, :mod:`.step` what happens between two passes, :mod:`.pace` how far and how fast a step
goes, :mod:`.path` how the weights come down from where L = 0 to those of the problem, :mod:`.start` where a run begins,
:mod:`.end` where a run on data without noise ends, and :mod:`.solver` the contract of a solver.
"""

from rankwolf.solvers.hybrid.settings import HybridSettings
from rankwolf.solvers.hybrid.solver import Hybrid

__all__ = ["Hybrid", "HybridSettings"]

import torch
from torch.testing import assert_close

from polytask.grads.solvers import accelerate, at_mean_scale, inverse_sqrt, project_simplex, spectral_bound, unit_gram


def test_unit_gram_by_hand():
    cosine, norms = unit_gram(torch.tensor([[4.0, -3.0], [-3.0, 9.0]]))
    assert_close(norms, torch.tensor([2.0, 3.0], dtype=torch.float64))
    assert_close(cosine, torch.tensor([[1.0, -0.5], [-0.5, 1.0]], dtype=torch.float64))


def test_a_step_has_the_length_of_the_mean_of_orthogonal_gradients():
    gradients = torch.tensor([[3.0, 0.0], [2.4, 3.2]], dtype=torch.float64)  # of lengths 3 and 4, cosine 0.6
    cosine, norms = unit_gram(gradients @ gradients.T)
    for point in (torch.tensor([1.0, 0.0]), torch.tensor([2.0, 5.0])):  # any coefficients give the same length
        step = at_mean_scale(point.double(), cosine, norms) @ gradients
        assert_close(step.norm(), torch.tensor(2.5, dtype=torch.float64))  # sqrt(9 + 16) / 2


def test_a_vanishing_gradient_is_orthogonal_to_all():
    cosine, norms = unit_gram(torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
    assert_close(cosine, torch.eye(2, dtype=torch.float64))
    assert 0 < norms[1] < 1e-5


def test_spectral_bound_is_above_and_near_the_largest_eigenvalue(jacobian, num_tasks):
    gram = jacobian @ jacobian.T
    largest = torch.linalg.eigvalsh(gram)[-1]
    assert largest * (1 - 1e-12) < spectral_bound(gram) < 1.001 * largest * num_tasks ** (1 / 16)


def test_simplex_projection_by_hand():
    ones = torch.ones(3)
    assert_close(project_simplex(torch.tensor([0.2, 0.3, 0.5]), ones), torch.tensor([0.2, 0.3, 0.5]))
    assert_close(project_simplex(torch.tensor([1.0, 0.8, -5.0]), ones), torch.tensor([0.6, 0.4, 0.0]))
    assert_close(project_simplex(torch.tensor([2.0, 2.0, 2.0]), ones), ones / 3)


def test_weighted_projection_is_the_nearest_point():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        point = torch.randn(6, generator=generator, dtype=torch.float64)
        price = torch.rand(6, generator=generator, dtype=torch.float64) + 0.1
        nearest = project_simplex(point, price)
        assert_close(price @ nearest, torch.tensor(1.0, dtype=torch.float64))
        assert (nearest >= 0).all()
        # The removed part has an obtuse angle with every direction into the set, whose corners are e_k / price_k.
        corners = (1 / price).diag()
        assert ((corners - nearest) @ (point - nearest) < 1e-12).all()


def test_acceleration_outruns_plain_steps():
    diagonal = torch.tensor([1.0, 1e-3])

    def step(point):
        return point - diagonal * (point - 1)

    plain = torch.zeros(2)
    for _ in range(200):
        plain = step(plain)
    assert (plain - 1).abs().max() > 0.8  # 0.999^200
    assert (accelerate(step, torch.zeros(2), 200) - 1).abs().max() < 0.01


def test_inverse_sqrt_inverts(jacobian):
    gram = jacobian @ jacobian.T
    root = inverse_sqrt(gram, ridge=1e-9)
    assert_close(root @ gram @ root, torch.eye(len(gram), dtype=torch.float64), rtol=0, atol=1e-4)


def test_inverse_sqrt_of_a_singular_matrix_is_the_ridge():
    root = inverse_sqrt(torch.diag(torch.tensor([2.0, 0.0], dtype=torch.float64)), ridge=1e-6)
    assert_close(root, torch.diag(torch.tensor([0.5**0.5, 1e3], dtype=torch.float64)), rtol=1e-6, atol=1e-9)

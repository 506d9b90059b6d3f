# %% [markdown] en
# # 1. Backprop: one number, then arrays
#
# A network is a long chain of small steps, and each step knows one thing: how much its result moves when its input
# moves a little. The last result is one number, the **loss**: how wrong the network is. **Backward** walks the chain from
# the loss to the inputs and multiplies what each step knows. Nobody ever writes down the derivative of the whole. What
# arrives at a value x is called its **gradient**, dL/dx.
# %% [markdown] es
# # 1. Retropropagación: un número y luego matrices
#
# Una red es una larga cadena de pasos pequeños, y cada paso sabe una sola cosa: cuánto se mueve su resultado cuando su
# entrada se mueve un poco. El último resultado es un solo número, la **pérdida**: cuánto se equivoca la red. **Backward**
# («hacia atrás») recorre la cadena desde la pérdida hasta las entradas y multiplica lo que sabe cada paso. Nadie escribe
# jamás la derivada del conjunto. Lo que llega a un valor x se llama su **gradiente**, dL/dx.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.words import speaker

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
# %% [markdown] en
# ## A chain of three steps
#
# `x → a = 2x → b = a + 1 → L = b²`. Forward computes from left to right. `ta.steps` shows backward one step at a time:
# the operation, and the gradient that has arrived at its result.
# %% [markdown] es
# ## Una cadena de tres pasos
#
# `x → a = 2x → b = a + 1 → L = b²`. Hacia delante se calcula de izquierda a derecha. `ta.steps` enseña backward paso a
# paso: la operación y el gradiente que ha llegado a su resultado.
# %%
x = ta.Tensor(3.0, requires_grad=True)
a = 2 * x
b = a + 1
L = b * b
print("x, a, b, L =", x.item(), a.item(), b.item(), L.item())
for step in ta.steps(L):
    name = step.node.op.name
    print(f"{name:4}  dL/d({name}) = {float(step.gradient):g}")
assert x.grad.item() == 28.0
# %% [markdown] en
# By hand: b enters the product twice, so dL/db = b + b = 14. A sum hands its gradient on unchanged: dL/da = 14. The
# factor 2 multiplies it: dL/dx = 28. The exact answer, 4(2x + 1), is the same 28.
#
# **Exercise 1.** Let `x = 3` and `L = (2x + 1)³`. What is dL/dx?
# %% [markdown] es
# A mano: b entra dos veces en el producto, así que dL/db = b + b = 14. Una suma deja pasar su gradiente tal cual:
# dL/da = 14. El factor 2 lo multiplica: dL/dx = 28. La respuesta exacta, 4(2x + 1), da el mismo 28.
#
# **Ejercicio 1.** Sean `x = 3` y `L = (2x + 1)³`. ¿Cuánto vale dL/dx?
# %%
exercise_1 = Exercise(
    say("dL/dx of (2x + 1)^3 at x = 3?", "¿dL/dx de (2x + 1)^3 en x = 3?"),
    right=294,
    hint=say(
        "Three steps: the cube gives 3 b^2, the sum 1, the product 2.",
        "Tres pasos: el cubo da 3 b^2, la suma 1, el producto 2.",
    ),
    mistakes=[(147, say("The inner factor 2 is missing.", "Falta el factor interior 2."))],
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# ## Gradients add up
#
# A value that is used twice receives two gradients, and they are added. That is also why `.grad` *accumulates*: a second
# `backward()` adds to the first, and a training loop clears the gradients at each step.
# %% [markdown] es
# ## Los gradientes se suman
#
# Un valor que se usa dos veces recibe dos gradientes, y se suman. Por eso también `.grad` *acumula*: un segundo
# `backward()` se añade al primero, y un bucle de entrenamiento borra los gradientes en cada paso.
# %%
x = ta.Tensor(3.0, requires_grad=True)
((2 * x + 1) ** 2).backward()
((2 * x + 1) ** 2).backward()
print(x.grad.item())
assert x.grad.item() == 56.0
# %% [markdown] en
# ## Broadcasting: copied forward, summed backward
#
# Adding a bias of shape `(3,)` to rows of shape `(2, 3)` uses each bias twice. So its gradient is the sum over the rows,
# and it has the shape of the bias. Wherever forward stretched an axis, backward sums over it.
# %% [markdown] es
# ## Broadcasting (difusión): se copia hacia delante, se suma hacia atrás
#
# Sumar un sesgo de forma `(3,)` a filas de forma `(2, 3)` usa cada sesgo dos veces. Su gradiente es, pues, la suma sobre
# las filas, y tiene la forma del sesgo. Donde hacia delante se estiró un eje, hacia atrás se suma sobre él.
# %%
rows = ta.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)  # (2, 3)
bias = ta.Tensor([10.0, 20.0, 30.0], requires_grad=True)  #                 (3,)
gradient = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
(rows + bias).backward(gradient)
print("dL/d(bias) =", bias.grad.numpy(), bias.grad.shape)
assert bias.grad.numpy().tolist() == [3.0, 30.0, 300.0]
# %% [markdown] en
# **Exercise 2.** A column `c` of shape `(2, 1)` times a row `r = (1, 2, 3)` makes a table `(2, 3)`. The gradient that
# arrives is 1 everywhere. What is dL/dc? (two numbers)
# %% [markdown] es
# **Ejercicio 2.** Una columna `c` de forma `(2, 1)` por una fila `r = (1, 2, 3)` forma una tabla `(2, 3)`. Llega un
# gradiente de 1 en todas partes. ¿Cuánto vale dL/dc? (dos números)
# %%
exercise_2 = Exercise(
    say("dL/dc of the column?", "¿dL/dc de la columna?"),
    right=[6, 6],
    hint=say(
        "Each entry of c was multiplied by 1, 2 and 3: add what comes back.",
        "Cada componente de c se multiplicó por 1, 2 y 3: suma lo que vuelve.",
    ),
    mistakes=[
        (
            [3, 3],
            say(
                "That counts the factors; each of them hands back its own value of r.",
                "Eso cuenta los factores; cada uno devuelve su propio valor de r.",
            ),
        ),
        (
            [[1, 2, 3], [1, 2, 3]],
            say("Sum over the stretched axis: dL/dc is (2, 1).", "Suma sobre el eje estirado: dL/dc es (2, 1)."),
        ),
    ],
    say=say,
)
answer = None
exercise_2(answer)
# %% [markdown] en
# Check with the engine: it needs no new rule for this, only the two that you have just seen.
# %% [markdown] es
# Compruébalo con el motor: no necesita ninguna regla nueva, solo las dos que acabas de ver.
# %%
c = ta.Tensor([[5.0], [7.0]], requires_grad=True)
(c * ta.Tensor([1.0, 2.0, 3.0])).sum().backward()
assert c.grad.numpy().ravel().tolist() == exercise_2.right

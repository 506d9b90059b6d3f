# %% [markdown] en
# # 3. Attention by hand, then with the engine
#
# A **token** is a piece of text, most often a word; here it is a row of numbers. Two tokens, two dimensions: every number
# fits on paper. Do it by hand first; the engine then confirms each step and adds what paper cannot easily give: the
# gradients.
# %% [markdown] es
# # 3. La atención a mano y luego con el motor
#
# Un **elemento** (en inglés, *token*) es un trozo de texto, casi siempre una palabra; aquí, una fila de números. Dos
# elementos, dos dimensiones: todos los números caben en un papel. Hazlo primero a mano; el motor confirma después cada
# paso y añade lo que el papel no da con facilidad: los gradientes.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.words import speaker
from tinygrad_attn.probe.trace import trace

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
# %% [markdown] en
# ## The four steps
#
# The tokens are the rows of `X = I`. Three matrices make of each token a query `q = X W_Q`, what it asks for; a key
# `k = X W_K`, how it is found; and a value `v = X W_V`, what it hands over. Here each token asks for itself (`W_Q = I`),
# shows itself as the other one (`W_K` swaps), and hands over a value of its own size (`W_V = diag(2, 3)`).
#
# 1. scores `q kᵀ`: every query with every key, one matrix product and no loop over positions
# 2. scale: we leave it out for now
# 3. weights: softmax of each **row**
# 4. mix: `weights v`, so that each output row is an average of values
# %% [markdown] es
# ## Los cuatro pasos
#
# Los elementos son las filas de `X = I`. Tres matrices hacen de cada elemento una consulta `q = X W_Q`, lo que busca; una
# clave `k = X W_K`, cómo se lo encuentra; y un valor `v = X W_V`, lo que entrega. Aquí cada uno pregunta por sí mismo
# (`W_Q = I`), se muestra como el otro (`W_K` intercambia) y entrega un valor de su propio tamaño (`W_V = diag(2, 3)`).
#
# 1. puntuaciones `q kᵀ`: cada consulta con cada clave, un solo producto de matrices y ningún bucle sobre posiciones
# 2. escala: de momento la omitimos
# 3. pesos: softmax de cada **fila**
# 4. mezcla: `pesos v`, de modo que cada fila de salida es una media de valores
# %%
X = np.eye(2)
W_Q = ta.Tensor(np.eye(2), requires_grad=True)
W_K = ta.Tensor(np.array([[0.0, 1.0], [1.0, 0.0]]), requires_grad=True)
W_V = ta.Tensor(np.diag([2.0, 3.0]), requires_grad=True)
q, k, v = X @ W_Q, X @ W_K, X @ W_V
print("q k^T =\n", (q @ k.mT).numpy())
# %% [markdown] en
# **Exercise 1.** Row 0 of the scores is (0, 1). What is row 0 of the weights? (two numbers, four decimals)
# %% [markdown] es
# **Ejercicio 1.** La fila 0 de las puntuaciones es (0, 1). ¿Cuál es la fila 0 de los pesos? (dos números, cuatro
# decimales)
# %%
exercise_1 = Exercise(
    say("Row 0 of the weights?", "¿Fila 0 de los pesos?"),
    right=[1 / (1 + np.e), np.e / (1 + np.e)],
    hint=say("e^0 and e^1, each over their sum.", "e^0 y e^1, cada uno entre su suma."),
    mistakes=[
        ([0, 1], say("That is a hard lookup; softmax is soft.", "Eso es una búsqueda exacta; softmax es blanda.")),
        ([0.5, 0.5], say("The scores differ, so the weights do.", "Las puntuaciones difieren; los pesos también.")),
        (
            [0.73106, 0.26894],
            say("The larger score gets the larger weight.", "La puntuación mayor recibe el peso mayor."),
        ),
    ],
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# **Exercise 2.** The values are (2, 0) and (0, 3). What is row 0 of the output?
# %% [markdown] es
# **Ejercicio 2.** Los valores son (2, 0) y (0, 3). ¿Cuál es la fila 0 de la salida?
# %%
exercise_2 = Exercise(
    say("Row 0 of the output?", "¿Fila 0 de la salida?"),
    right=[2 / (1 + np.e), 3 * np.e / (1 + np.e)],
    hint="0.26894 (2, 0) + 0.73106 (0, 3).",
    mistakes=[
        ([0, 3], say("That would be V_1 alone: a hard lookup.", "Eso sería solo V_1: una búsqueda exacta.")),
        (
            [0.26894, 0.73106],
            say("Those are the weights; now mix the values.", "Esos son los pesos; ahora mezcla los valores."),
        ),
    ],
    say=say,
)
answer = None
exercise_2(answer)
# %%
out, weights = ta.scaled_dot_product_attention(q, k, v, scale=1.0)
print(weights.numpy().round(5), "\n", out.numpy().round(5))
assert np.allclose(weights.numpy(), [[0.26894, 0.73106], [0.73106, 0.26894]], atol=5e-6)
assert np.allclose(out.numpy(), [[0.53788, 2.19318], [1.46212, 0.80682]], atol=5e-6)
# %% [markdown] en
# ## A slip to avoid: soft is not hard
#
# One reads that token 0 "looks at token 1 and returns its value". It does not. Even with `W_V = I`, where `V_1 = (0, 1)`,
# the output is (0.269, 0.731), the weights themselves. Only a *hard* lookup returns `V_1`; raising the scale gets there.
# %% [markdown] es
# ## Un desliz que conviene evitar: blando no es exacto
#
# Se lee a veces que el elemento 0 «mira al elemento 1 y devuelve su valor». No es así. Incluso con `W_V = I`, donde
# `V_1 = (0, 1)`, la salida es (0.269, 0.731), los propios pesos. Solo una búsqueda *exacta* devuelve `V_1`; subir la
# escala se acerca a ella.
# %%
for scale in (1.0, 4.0, 16.0, 64.0):
    mixed, _ = ta.scaled_dot_product_attention(q, k, np.eye(2), scale=scale)
    print(say("scale", "escala"), f"{scale:4g}:", mixed.numpy()[0].round(5))
assert np.allclose(mixed.numpy()[0], [0.0, 1.0])
# %% [markdown] en
# ## With the scale
#
# Divided by `√d_k`, the scores are smaller and the weights milder. d_k is the width of a query and of a key, here 2; lesson
# 5 says why it is the root.
#
# **Exercise 3.** What must each row of the weights satisfy, with or without the scale? Write what the row sums to.
# %% [markdown] es
# ## Con la escala
#
# Divididas entre `√d_k`, las puntuaciones son menores y los pesos más suaves. d_k es la anchura de una consulta y de una
# clave, aquí 2; la lección 5 dice por qué es la raíz.
#
# **Ejercicio 3.** ¿Qué cumple toda fila de los pesos, con escala o sin ella? Escribe cuánto suma la fila.
# %%
out, weights = ta.scaled_dot_product_attention(q, k, v)
print(weights.numpy()[0].round(5), out.numpy()[0].round(5))
assert np.allclose(weights.numpy()[0], [0.33024, 0.66976], atol=5e-6)
assert np.allclose(out.numpy()[0], [0.66048, 2.00928], atol=5e-6)
exercise_3 = Exercise(
    say("What does each row of the weights sum to?", "¿Cuánto suma cada fila de los pesos?"),
    right=1,
    hint=say("softmax makes shares of a whole.", "softmax forma las partes de un todo."),
    mistakes=[
        (
            2,
            say(
                "That is the number of rows, the sum of the whole matrix.",
                "Ese es el número de filas, la suma de toda la matriz.",
            ),
        )
    ],
    say=say,
)
answer = None
exercise_3(answer)
# %% [markdown] en
# Rows, not columns: rows are queries, columns are keys. This example cannot catch a softmax over the wrong axis, since its
# scores are symmetric. These can:
# %% [markdown] es
# Filas, no columnas: las filas son consultas y las columnas, claves. Este ejemplo no delata un softmax sobre el eje
# equivocado, pues sus puntuaciones son simétricas. Estas sí:
# %%
s, values = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[1.0], [10.0]])
print(say("keys (right):", "claves (bien):"), (ta.softmax(s, axis=-1) @ values).numpy().ravel().round(4))
print(say("queries (wrong):", "consultas (mal):"), (ta.softmax(s, axis=0) @ values).numpy().ravel().round(4))


# %% [markdown] en
# ## Every step, and the gradient that reaches it
#
# The loss is the first entry of the first output. Each line gives the typical size (root mean square) of a step and of
# its gradient.
# %% [markdown] es
# ## Cada paso y el gradiente que le llega
#
# La pérdida es la primera entrada de la primera salida. Cada línea da el tamaño típico (media cuadrática) de un paso y el
# de su gradiente.
# %%
def loss():
    mixed, _ = ta.scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V)
    return mixed[0, 0]


for seen in trace(loss):
    sizes = f"{say('value', 'valor')} {seen.value_rms:.4f}   {say('gradient', 'gradiente')} {seen.gradient_rms:.4f}"
    print(f"{seen.name:8} {seen.shape!s:8} {sizes}")
print("dL/dW_Q =\n", W_Q.grad.numpy().round(4))
# en: more of out[0, 0] asks token 0 to want what token 0 shows: away from key 1, towards key 0
# es: más de out[0, 0] pide que el elemento 0 quiera lo que muestra el 0: lejos de la clave 1, hacia la clave 0
assert W_Q.grad.numpy()[0, 1] > 0 > W_Q.grad.numpy()[0, 0]

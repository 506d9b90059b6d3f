# %% [markdown] en
# # 2. softmax and its Jacobian
#
# softmax turns any numbers into shares: positive, with sum 1. It asks who is largest, but softly, so that a gradient can
# say "a little more of that one". This lesson shows where that gradient comes from and when it disappears.
# %% [markdown] es
# # 2. softmax y su jacobiano
#
# softmax convierte números cualesquiera en proporciones: positivas y de suma 1. Pregunta quién es el mayor, pero con
# suavidad, de modo que un gradiente pueda decir «un poco más de aquel». Esta lección enseña de dónde sale ese gradiente
# y cuándo desaparece.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.dictionary import DICTIONARY, soft_dictionary, soft_lookup
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.jacobian import softmax_jacobian
from tinygrad_attn.lab.temperature import temperature_and_entropy
from tinygrad_attn.lab.words import speaker

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
# %% [markdown] en
# ## The Jacobian, entry by entry
#
# $p_i = e^{s_i} / \sum_j e^{s_j}$. Raising $s_j$ raises its own share and lowers all the others:
# $\partial p_i / \partial s_j = p_i(\delta_{ij} - p_j)$, where $\delta_{ij}$ is 1 if $i = j$ and 0 otherwise. All these
# derivatives together are the **Jacobian**. Each column sums to 0, because the shares keep the sum 1; and each row sums
# to 0, because the same amount added to every score changes no share.
# %% [markdown] es
# ## El jacobiano, entrada por entrada
#
# $p_i = e^{s_i} / \sum_j e^{s_j}$. Subir $s_j$ sube su propia parte y baja todas las demás:
# $\partial p_i / \partial s_j = p_i(\delta_{ij} - p_j)$, donde $\delta_{ij}$ es 1 si $i = j$ y 0 si no. Todas estas
# derivadas juntas son el **jacobiano**. Cada columna suma 0, pues las partes siguen sumando 1; y cada fila suma 0, pues
# añadir lo mismo a todas las puntuaciones no cambia ninguna parte.
# %%
s = np.array([0.2, -1.0, 0.7])
J = softmax_jacobian(s)
print(J.round(4))
assert np.allclose(J.sum(axis=0), 0.0) and np.allclose(J.sum(axis=1), 0.0)
# en: backward never builds J; asked with one unit vector after the other, it gives it back
# es: backward nunca construye J; si se le pregunta con un vector unitario tras otro, lo devuelve
assert np.allclose(ta.jacobian(ta.softmax, s).numpy(), J, atol=1e-15)
# %% [markdown] en
# **Exercise 1.** Two equal scores give $p = (0.5, 0.5)$. What is $\partial p_0 / \partial s_0$?
# %% [markdown] es
# **Ejercicio 1.** Dos puntuaciones iguales dan $p = (0.5, 0.5)$. ¿Cuánto vale $\partial p_0 / \partial s_0$?
# %%
exercise_1 = Exercise(
    say("dp_0/ds_0 at p = (0.5, 0.5)?", "¿dp_0/ds_0 con p = (0.5, 0.5)?"),
    right=0.25,
    hint="p_0 (1 - p_0).",
    mistakes=[
        (0.5, say("That is p_0; it is multiplied with 1 - p_0.", "Eso es p_0; se multiplica por 1 - p_0.")),
        (-0.25, say("That is dp_0/ds_1: the *other* score.", "Eso es dp_0/ds_1: la *otra* puntuación.")),
    ],
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# ## A sum sees nothing
#
# The gradient of `softmax(s).sum()` is 0 whatever `s` is: the sum is always 1. A test of softmax with `.sum()` therefore
# lets many wrong rules pass, one with the wrong sign among them: minus 0 is 0, too. Use weights that differ.
# %% [markdown] es
# ## Una suma no ve nada
#
# El gradiente de `softmax(s).sum()` es 0 sea cual sea `s`: la suma siempre vale 1. Por eso una prueba de softmax con
# `.sum()` deja pasar muchas reglas equivocadas, entre ellas la del signo cambiado: menos 0 también es 0. Usa pesos
# distintos.
# %%
t = ta.Tensor(s, requires_grad=True)
ta.softmax(t).sum().backward()
print(np.abs(t.grad.numpy()).max())
assert np.abs(t.grad.numpy()).max() < 1e-16
# %% [markdown] en
# ## Temperature
#
# `softmax(s / T)`: a low temperature sharpens, a high one evens out. The **entropy** $-\sum_i p_i \log p_i$ measures how
# widely the shares are spread: 0 where one takes all, log n where all n are alike. It moves with the temperature. In
# attention the scores belong to *keys*, and a share is called a *weight*. Look at the last column: the gradient that
# reaches a typical score vanishes at **both** ends.
# %% [markdown] es
# ## Temperatura
#
# `softmax(s / T)`: una temperatura baja afila, una alta iguala. La **entropía** $-\sum_i p_i \log p_i$ mide cuán repartidas
# están las partes: 0 si una se lo lleva todo, log n si las n son iguales. Se mueve con la temperatura. En la atención las
# puntuaciones son de unas *claves*, y una parte se llama *peso*. Mira la última columna: el gradiente que llega a una
# puntuación típica se desvanece en **ambos** extremos.
# %%
print(temperature_and_entropy(seeds=1, language=LANGUAGE))
# %% [markdown] en
# **Exercise 2.** What is the entropy of softmax over 8 keys as T goes to infinity? (natural logarithm, three decimals)
# %% [markdown] es
# **Ejercicio 2.** ¿A qué tiende la entropía de softmax sobre 8 claves cuando T tiende a infinito? (logaritmo natural,
# tres decimales)
# %%
exercise_2 = Exercise(
    say("Entropy over 8 keys, T to infinity?", "¿Entropía con 8 claves, T hacia infinito?"),
    right=float(np.log(8)),
    hint=say("All weights become 1/8; -sum p log p.", "Todos los pesos se vuelven 1/8; -sum p log p."),
    mistakes=[
        (0, say("That is the other end: T to 0, one key.", "Ese es el otro extremo: T hacia 0, una sola clave.")),
        (3, say("Bits, and not nats: use the natural logarithm.", "Son bits y no nats: usa el logaritmo natural.")),
    ],
    say=say,
)
answer = None
exercise_2(answer)
# %% [markdown] en
# ## A soft dictionary
#
# A dictionary compares a query with every key and returns the value of the one that matches. Attention does the same,
# softly: each key gets a weight, and the answer is the weighted mean of the values. As the temperature falls, the soft
# lookup becomes `d[key]`.
# %% [markdown] es
# ## Un diccionario blando
#
# Un diccionario compara una consulta con todas las claves y devuelve el valor de la que coincide. La atención hace lo
# mismo con suavidad: cada clave recibe un peso y la respuesta es la media ponderada de los valores. Al bajar la
# temperatura, la búsqueda blanda se convierte en `d[clave]`.
# %%
keys = dict(zip(DICTIONARY, np.eye(len(DICTIONARY))))
for T in (10.0, 1.0, 0.3, 0.1):
    value, weights = soft_lookup(DICTIONARY, "blue", T, keys)
    print(f"T = {T:4}  d['blue'] = {value:.4f}   {weights.round(3)}")
assert abs(value - DICTIONARY["blue"]) < 0.01
print(soft_dictionary(seeds=2, language=LANGUAGE))
# %% [markdown] en
# ## Small is not zero
#
# With one share near 1, `1 - p` is rounded away and the textbook line gives the winner no gradient at all. The engine
# subtracts the winner's own gradient first, which changes nothing in exact arithmetic and keeps the digits.
# %% [markdown] es
# ## Pequeño no es cero
#
# Con una parte cercana a 1, `1 - p` se pierde en el redondeo y la fórmula de manual deja al ganador sin gradiente
# alguno. El motor resta primero el gradiente del propio ganador, lo que no cambia nada en aritmética exacta y conserva
# los dígitos.
# %%
logits, g = np.array([20.0, 0.0], np.float32), np.array([1.0, 0.0], np.float32)
p = ta.softmax(logits).numpy()
t = ta.Tensor(logits, requires_grad=True)
ta.softmax(t).backward(g)
print(say("textbook", "manual"), p * (g - (p * g).sum()))
print(say("engine  ", "motor "), t.grad.numpy())
assert np.allclose(t.grad.numpy(), [2.0611537e-9, -2.0611537e-9], rtol=1e-5)

# %% [markdown] en
# # 7. Several heads
#
# One row of weights is one average. A token that needs two things at once, say its verb and its subject, gets them mixed.
# Several heads give it several rows. They cost no more weights than one wide head: the width is divided among them.
# %% [markdown] es
# # 7. Varias cabezas
#
# Una fila de pesos es un solo promedio. Un elemento que necesita dos cosas a la vez, digamos su verbo y su sujeto, las
# recibe mezcladas. Varias cabezas le dan varias filas. No cuestan más pesos que una cabeza ancha: la anchura se reparte.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.concatenated import concatenated_and_separate
from tinygrad_attn.lab.cost import cost_of_length
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.successor import Finder, Successor, train
from tinygrad_attn.lab.words import speaker

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
# %% [markdown] en
# ## Counting weights
#
# d_model = 64 and 4 heads, so d_k = d_v = 16. Each head has three matrices of 64 × 16; behind all heads stands one W_O of
# 64 × 64.
#
# **Exercise 1.** How many weights do the three matrices of one head have?
# %% [markdown] es
# ## Contar pesos
#
# d_model = 64 y 4 cabezas, luego d_k = d_v = 16. Cada cabeza tiene tres matrices de 64 × 16; tras todas ellas está una W_O
# de 64 × 64.
#
# **Ejercicio 1.** ¿Cuántos pesos tienen las tres matrices de una cabeza?
# %%
exercise_1 = Exercise(
    say("Weights of one head?", "¿Pesos de una cabeza?"),
    right=3072,
    hint="3 x 64 x 16.",
    mistakes=[
        (1024, say("That is one matrix; a head has three.", "Esa es una matriz; una cabeza tiene tres.")),
        (12288, say("That is all four heads.", "Esas son las cuatro cabezas.")),
    ],
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# **Exercise 2.** And the whole layer, W_O included, without biases?
# %% [markdown] es
# **Ejercicio 2.** ¿Y la capa entera, con W_O y sin sesgos?
# %%
exercise_2 = Exercise(
    say("Weights of the layer?", "¿Pesos de la capa?"),
    right=16384,
    hint=say("4 heads of 3,072, and W_O with 64 x 64.", "4 cabezas de 3072, y W_O con 64 x 64."),
    mistakes=[(12288, say("W_O is missing.", "Falta W_O."))],
    say=say,
)
answer = None
exercise_2(answer)
# %%
mha = ta.nn.MultiHeadAttention(64, 4, seed=0)
table = ta.nn.count_parameters(mha)
print(table)
assert (table["Q, K, V"].a_head, table["Q, K, V"].weights, table["W_O"].weights, table.total) == (
    3072,
    12288,
    4096,
    16384,
)
# %% [markdown] en
# ## The same, concatenated
#
# The matrices of the heads side by side make W_Q, W_K and W_V of 64 × 64; these three side by side make one W_QKV of
# 64 × 192. The outputs and gradients are equal, and fewer, larger products are usually faster. Equality is a fact; the clock
# is only shown, since it depends on the machine.
# %% [markdown] es
# ## Lo mismo, concatenado
#
# Las matrices de las cabezas, una junto a otra, forman W_Q, W_K y W_V de 64 × 64; estas tres, juntas, forman una W_QKV de
# 64 × 192. Las salidas y los gradientes son iguales, y menos productos, más grandes, suelen ser más rápidos. La igualdad es
# un hecho; el reloj solo se enseña, pues depende de la máquina.
# %%
print(concatenated_and_separate(seeds=1, language=LANGUAGE, repeats=5))
# %%
packed = ta.nn.MultiHeadAttention(64, 4, seed=0, packed=True)
x = ta.Tensor(np.random.default_rng(0).standard_normal((2, 6, 64)).astype(np.float32))
print(packed.W_QKV.shape, np.abs((mha(x) - packed(x)).numpy()).max())
assert np.allclose(mha(x).numpy(), packed(x).numpy(), atol=1e-6)
# %% [markdown] en
# ## One wide head against four narrow ones
#
# A task that needs four places: each token answers the labels of its next four followers. One row of weights can hold all
# four labels, but not which is whose.
# %% [markdown] es
# ## Una cabeza ancha contra cuatro estrechas
#
# Una tarea que necesita cuatro lugares: cada elemento responde las etiquetas de sus cuatro sucesores. Una fila de pesos
# puede contener las cuatro etiquetas, pero no cuál es de quién.
# %%
for heads in (1, 4):
    finder = Finder(0, 64 // heads, 64 // heads, heads=heads, hops=4)
    last = train(finder, Successor(0, hops=4), 0, steps=150, lr=10.0)[-1]
    print(say(f"{heads} head(s): {last.accuracy:.0%}", f"{heads} cabeza(s): {last.accuracy:.0%}"))
assert last.accuracy > 0.9
# %% [markdown] en
# ## What length costs
#
# Every query meets every key: n² scores, each of d products. Doubling the length makes four times the work.
#
# **Exercise 3.** How many times the work does three times the length make?
# %% [markdown] es
# ## Lo que cuesta la longitud
#
# Cada consulta se encuentra con cada clave: n² puntuaciones de d productos cada una. Doblar la longitud cuadruplica el
# trabajo.
#
# **Ejercicio 3.** ¿Por cuánto se multiplica el trabajo al triplicar la longitud?
# %%
exercise_3 = Exercise(
    say("Three times the length: how many times the work?", "¿Por cuánto se multiplica el trabajo?"),
    right=9,
    hint=say("The work grows with n squared.", "El trabajo crece con n al cuadrado."),
    mistakes=[
        (
            3,
            say(
                "Not only more queries: each meets more keys, too.",
                "No solo hay más consultas: cada una ve más claves.",
            ),
        )
    ],
    say=say,
)
answer = None
exercise_3(answer)
print(cost_of_length(seeds=1, language=LANGUAGE, lengths=(128, 256, 512)))

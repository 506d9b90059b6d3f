# %% [markdown] en
# # 4. Why three projections?
#
# One could compare tokens with themselves: no W_Q, no W_K, no W_V. Four arguments say why attention does not stop there.
# Each is a claim that can fail, so each is measured here, and two of them turn out weaker than they sound.
# %% [markdown] es
# # 4. ¿Por qué tres proyecciones?
#
# Se podrían comparar los elementos consigo mismos: sin W_Q, sin W_K, sin W_V. Cuatro argumentos dicen por qué la atención
# no se queda ahí. Cada uno es una afirmación que puede fallar, así que aquí se mide, y dos de ellos resultan más débiles
# de lo que suenan.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.asymmetry import asymmetry_of_scores
from tinygrad_attn.lab.definiteness import rank_and_definiteness
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.parameter_free import parameter_free_and_learned
from tinygrad_attn.lab.ties import tied_and_independent
from tinygrad_attn.lab.values import width_of_values
from tinygrad_attn.lab.words import speaker

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
# %% [markdown] en
# ## Attention without weights
#
# `softmax(x xᵀ) x` has nothing to train: a token looks at what resembles it. Our task asks for something else. Sixteen
# symbols stand on a secret cycle; each token carries a symbol and a label, and must answer the label of the symbol that
# *follows* its own.
# %% [markdown] es
# ## Atención sin pesos
#
# `softmax(x xᵀ) x` no tiene nada que entrenar: un elemento mira a lo que se le parece. Nuestra tarea pide otra cosa.
# Dieciséis símbolos forman un ciclo secreto; cada elemento lleva un símbolo y una etiqueta, y debe responder la etiqueta
# del símbolo que *sigue* al suyo.
# %%
print(parameter_free_and_learned(seeds=1, language=LANGUAGE))
# %% [markdown] en
# ## Argument 1: relations have a direction
#
# With `W_Q = W_K` the score of (i, j) equals the score of (j, i). Mind the difference: the *scores* become symmetric, the
# *weights* do not, because softmax normalises row by row.
# %% [markdown] es
# ## Argumento 1: las relaciones tienen dirección
#
# Con `W_Q = W_K` la puntuación de (i, j) es igual a la de (j, i). Atención a la diferencia: se vuelven simétricas las
# *puntuaciones*, no los *pesos*, porque softmax normaliza fila por fila.
# %%
print(asymmetry_of_scores(seeds=1, language=LANGUAGE, widths=(16,)))
# %% [markdown] en
# **Exercise 1.** Tied scores `[[1, 1], [1, 2]]` are symmetric. What are the two weights off the diagonal, p[0, 1] and
# p[1, 0]?
# %% [markdown] es
# **Ejercicio 1.** Las puntuaciones ligadas `[[1, 1], [1, 2]]` son simétricas. ¿Cuánto valen los dos pesos fuera de la
# diagonal, p[0, 1] y p[1, 0]?
# %%
exercise_1 = Exercise(
    say("p[0, 1] and p[1, 0]?", "¿p[0, 1] y p[1, 0]?"),
    right=[0.5, 1 / (1 + np.e)],
    hint=say("Row 0: softmax(1, 1). Row 1: softmax(1, 2).", "Fila 0: softmax(1, 1). Fila 1: softmax(1, 2)."),
    mistakes=[
        (
            [0.5, 0.5],
            say(
                "Symmetric scores, but row 1 has another sum.",
                "Puntuaciones simétricas, pero la fila 1 tiene otra suma.",
            ),
        ),
        ([1, 1], say("Those are the scores.", "Esas son las puntuaciones.")),
    ],
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# ## Argument 2: to be found is not to be read
#
# A key says when a token should be found, a value what it then hands over. With `W_K = W_V` one vector must do both. The
# four-way comparison shows what each tie costs. Look closely at K = V: with room enough (d_k = 16) it costs little here;
# narrow keys (d_k = 8) feel it. Tied matrices are one tensor, so the gradients of its uses add up.
# %% [markdown] es
# ## Argumento 2: ser encontrado no es ser leído
#
# Una clave dice cuándo hay que encontrar un elemento; un valor, qué entrega entonces. Con `W_K = W_V` un solo vector debe
# hacer ambas cosas. La comparación de las cuatro variantes muestra lo que cuesta cada ligadura. Fíjate en K = V: con sitio
# suficiente (d_k = 16) aquí cuesta poco; las claves estrechas (d_k = 8) sí lo notan. Las matrices ligadas son un tensor, de
# modo que se suman los gradientes de sus usos.
# %%
print(tied_and_independent(seeds=2, language=LANGUAGE, steps=120, every=60))
# %%
mha = ta.nn.MultiHeadAttention(8, 2, seed=0, tie="qk")
print(mha.W_Q is mha.W_K, ta.nn.count_parameters(mha), sep="\n")
# %% [markdown] en
# ## Argument 3: values may have another width
#
# Queries and keys must be equally wide (d_k), or they could not be compared. Values are only averaged, so their width d_v is
# free; the weights do not depend on it.
# %% [markdown] es
# ## Argumento 3: los valores pueden tener otra anchura
#
# Consultas y claves han de ser igual de anchas (d_k) para poder compararse. Los valores solo se promedian, así que su
# anchura d_v es libre; los pesos no dependen de ella.
# %%
print(width_of_values(seeds=1, language=LANGUAGE, widths=(1, 4, 16), steps=100))
# %% [markdown] en
# **Exercise 2.** q is (10, 16), k is (12, 16), v is (12, 5). What is the shape of the output? (two numbers)
# %% [markdown] es
# **Ejercicio 2.** q es (10, 16), k es (12, 16), v es (12, 5). ¿Qué forma tiene la salida? (dos números)
# %%
exercise_2 = Exercise(
    say("Shape of the output?", "¿Forma de la salida?"),
    right=[10, 5],
    hint=say("weights (10, 12) times v (12, 5).", "pesos (10, 12) por v (12, 5)."),
    mistakes=[
        (
            [10, 12],
            say("Those are the weights; they still have to mix v.", "Esos son los pesos; aún han de mezclar v."),
        ),
        ([10, 16], say("The output is as wide as v, not as k.", "La salida es tan ancha como v, no como k.")),
        ([12, 5], say("One row for each query, not for each key.", "Una fila por consulta, no por clave.")),
    ],
    say=say,
)
answer = None
exercise_2(answer)
# %% [markdown] en
# ## Argument 4: what M can be
#
# Let d_model be the width of a token. With tokens as rows, the scores are `S = X W_Q (X W_K)ᵀ = X M Xᵀ` with
# `M = W_Q W_Kᵀ`, a d_model × d_model matrix of rank at most d_k.
# Tied it is `W Wᵀ` (not `Wᵀ W`, which is d_k × d_k), and that is positive **semi**definite: no eigenvalue is negative, and
# at least `d_model - d_k` of them are exactly zero when d_k < d_model. No token can then score below 0 with itself; with
# independent matrices it can.
# %% [markdown] es
# ## Argumento 4: lo que M puede ser
#
# Sea d_model la anchura de un elemento. Con los elementos como filas, las puntuaciones son
# `S = X W_Q (X W_K)ᵀ = X M Xᵀ` con `M = W_Q W_Kᵀ`, una matriz d_model × d_model de rango a lo sumo d_k. Ligada es `W Wᵀ`
# (no `Wᵀ W`, que es d_k × d_k), y esta es **semi**definida positiva: ningún autovalor es negativo y al menos
# `d_model - d_k` de ellos son exactamente cero cuando d_k < d_model. Ningún elemento puede entonces puntuarse a sí mismo
# por debajo de 0; con matrices independientes, sí.
# %%
print(rank_and_definiteness(seeds=1, language=LANGUAGE))
# %% [markdown] en
# **Exercise 3.** d_model = 64, d_k = 16, W_Q = W_K drawn at random. How many eigenvalues of M are exactly zero?
# %% [markdown] es
# **Ejercicio 3.** d_model = 64, d_k = 16, W_Q = W_K al azar. ¿Cuántos autovalores de M son exactamente cero?
# %%
exercise_3 = Exercise(
    say("How many zero eigenvalues?", "¿Cuántos autovalores nulos?"),
    right=48,
    hint=say("M is 64 x 64 and has rank 16.", "M es 64 x 64 y tiene rango 16."),
    mistakes=[
        (16, say("That is the rank: the ones that are *not* zero.", "Ese es el rango: los que *no* son cero.")),
        (
            0,
            say(
                "Semidefinite, not definite: rank 16 in 64 dimensions.",
                "Semidefinida, no definida: rango 16 en 64 dimensiones.",
            ),
        ),
    ],
    say=say,
)
answer = None
exercise_3(answer)

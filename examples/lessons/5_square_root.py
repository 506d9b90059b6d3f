# %% [markdown] en
# # 5. The mystery of 1/√d_k
#
# Attention divides its scores by √d_k. It looks like a detail. Take it away, and the gradient that should move attention
# from one key to another dies. This lesson follows that gradient, and is careful about *which* gradient dies.
# %% [markdown] es
# # 5. El misterio de 1/√d_k
#
# La atención divide sus puntuaciones entre √d_k. Parece un detalle. Quítalo, y muere el gradiente que debería mover la
# atención de una clave a otra. Esta lección sigue ese gradiente y pone cuidado en decir *cuál* es el que muere.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.jacobian import jacobian_and_saturation
from tinygrad_attn.lab.learning import learning_with_and_without_scaling
from tinygrad_attn.lab.scorers import additive_dot_and_scaled
from tinygrad_attn.lab.vanishing import vanishing_gradients
from tinygrad_attn.lab.variance import score_variance
from tinygrad_attn.lab.words import speaker

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
# %% [markdown] en
# ## How large is a score?
#
# A score is a sum of d_k products. If the entries of q and k are independent with mean 0 and variance 1, each product has
# mean 0 and variance 1, and the variances add up.
#
# **Exercise 1.** What is the variance of q·k at d_k = 64?
# %% [markdown] es
# ## ¿Qué tamaño tiene una puntuación?
#
# Una puntuación es una suma de d_k productos. Si las componentes de q y k son independientes, de media 0 y varianza 1,
# cada producto tiene media 0 y varianza 1, y las varianzas se suman.
#
# **Ejercicio 1.** ¿Cuál es la varianza de q·k con d_k = 64?
# %%
exercise_1 = Exercise(
    say("Variance of q.k at d_k = 64?", "¿Varianza de q.k con d_k = 64?"),
    right=64,
    hint=say("64 independent terms of variance 1.", "64 términos independientes de varianza 1."),
    mistakes=[
        (8, say("That is the standard deviation.", "Esa es la desviación típica.")),
        (1, say("That is what dividing by sqrt(d_k) makes of it.", "Eso queda tras dividir entre sqrt(d_k).")),
        (
            4096,
            say(
                "Variances of independent terms add up; they do not multiply.",
                "Las varianzas de términos independientes se suman, no se multiplican.",
            ),
        ),
    ],
    say=say,
)
answer = None
exercise_1(answer)
# %%
print(score_variance(seeds=1, language=LANGUAGE))
# %% [markdown] en
# ## What large scores do to softmax
#
# Scores of ±8 or ±32 leave, in most rows, one key with nearly all the weight. Then $p_i(\delta_{ij} - p_j)$ is nearly 0
# everywhere: the softmax is saturated and lets no gradient through.
# %% [markdown] es
# ## Lo que hacen las puntuaciones grandes con softmax
#
# Unas puntuaciones de ±8 o ±32 dejan, en la mayoría de las filas, a una clave con casi todo el peso. Entonces
# $p_i(\delta_{ij} - p_j)$ es casi 0 en todas partes: softmax está saturada y no deja pasar el gradiente.
# %%
print(jacobian_and_saturation(seeds=1, language=LANGUAGE, samples=200))
# %% [markdown] en
# ## Which gradient vanishes?
#
# "Gradients vanish" is true of **dL/dS**, the gradient of the scores. It is false of dL/dW_Q: its norm *grows* without the
# scaling, because the few rows that stay alive lack the factor 1/√d_k. A plot of the norms of the
# parameters' gradients would teach the opposite of the truth.
# %% [markdown] es
# ## ¿Qué gradiente se desvanece?
#
# «Los gradientes se desvanecen» es cierto de **dL/dS**, el gradiente de las puntuaciones. Es falso de dL/dW_Q: su norma
# *crece* sin el escalado, pues a las pocas filas vivas les falta el factor 1/√d_k. Una gráfica de las normas
# de los gradientes de los parámetros enseñaría lo contrario de la verdad.
# %%
print(vanishing_gradients(seeds=1, language=LANGUAGE, rows=800, draws=10))
# %% [markdown] en
# **Exercise 2.** You train without the scaling at d_k = 256 and see that the norm of dL/dW_Q is large. Is attention
# learning well? Answer with the gradient that you must look at: "dL/dW_Q" or "dL/dS".
# %% [markdown] es
# **Ejercicio 2.** Entrenas sin escalado con d_k = 256 y ves que la norma de dL/dW_Q es grande. ¿Aprende bien la atención?
# Responde con el gradiente que hay que mirar: "dL/dW_Q" o "dL/dS".
# %%
exercise_2 = Exercise(
    say("Which gradient tells?", "¿Qué gradiente lo dice?"),
    right="dL/dS",
    hint=say("Where does the softmax stand in the chain?", "¿Dónde está softmax en la cadena?"),
    mistakes=[
        (
            "dL/dW_Q",
            say(
                "A few live rows make it large while most are dead.",
                "Unas pocas filas vivas la agrandan; las demás están muertas.",
            ),
        )
    ],
    say=say,
)
answer = None
exercise_2(answer)
# %% [markdown] en
# ## Does the model stop learning?
#
# The task of lesson 4 with and without the scaling, by plain gradient descent (SGD). A query is *stuck* when its answer is
# wrong and its row of dL/dS is dead. Unscaled, more and more queries start stuck, and learning falls behind. It slows down
# rather than stops: the live rows share W_Q and W_K with the stuck ones and pull them free.
#
# The last variant starts from sigma 0.02, as transformers do. Its scores are tiny, nothing is saturated, and the whole
# effect is invisible. Saturation must be studied with unit-variance q and k.
# %% [markdown] es
# ## ¿Deja de aprender el modelo?
#
# La tarea de la lección 4 con y sin escalado, por simple descenso de gradiente (SGD). Una consulta está *atascada* cuando
# su respuesta es errónea y su fila de dL/dS está muerta. Sin escalado, cada vez más consultas comienzan atascadas y el
# aprendizaje se retrasa. Se frena más que se detiene: las filas vivas comparten W_Q y W_K con las atascadas y las liberan.
#
# La última variante parte de sigma 0.02, como los transformers. Sus puntuaciones son diminutas, nada está saturado y el
# efecto entero es invisible. La saturación debe estudiarse con q y k de varianza 1.
# %%
print(learning_with_and_without_scaling(seeds=2, language=LANGUAGE, widths=(16, 256), steps=60, every=30, rates=(3.0,)))
# %% [markdown] en
# **Exercise 3.** W_Q and W_K are drawn with sigma 0.02; x has 64 entries of variance 1; d_k = 16. What is the standard
# deviation of an entry of q?
# %% [markdown] es
# **Ejercicio 3.** W_Q y W_K se sortean con sigma 0.02; x tiene 64 componentes de varianza 1; d_k = 16. ¿Cuál es la
# desviación típica de una componente de q?
# %%
exercise_3 = Exercise(
    say("Std of an entry of q?", "¿Desviación típica de una componente de q?"),
    right=0.16,
    hint=say(
        "A sum of 64 terms of variance 0.02^2; then the root.",
        "Una suma de 64 términos de varianza 0.02^2; luego la raíz.",
    ),
    mistakes=[
        (0.0256, say("That is the variance.", "Esa es la varianza.")),
        (1.28, say("Variances add up, not standard deviations.", "Se suman las varianzas, no las desviaciones.")),
    ],
    say=say,
)
answer = None
exercise_3(answer)
x, W = np.random.default_rng(0).standard_normal((2000, 64)), 0.02 * np.random.default_rng(1).standard_normal((64, 16))
print((x @ W).std().round(3), ta.nn.MultiHeadAttention(64, 4, seed=0).W_Q.numpy().std().round(4))
# %% [markdown] en
# ## Another way out
#
# Before the scaled dot product there was additive attention: a tiny network scores each pair, and its tanh, which stays
# between -1 and 1, keeps scores small. It beats the *unscaled* dot product at large d_k, and pays with operations and
# memory.
# %% [markdown] es
# ## Otra salida
#
# Antes del producto escalado existió la atención aditiva: una red diminuta puntúa cada par, y su tanh, que se queda entre
# -1 y 1, mantiene pequeñas las puntuaciones. Supera al producto *sin escalar* cuando d_k es grande, y lo paga en
# operaciones y memoria.
# %%
print(additive_dot_and_scaled(seeds=2, language=LANGUAGE, widths=(16, 256), rates=(2.0, 3.0)))

# %% [markdown] en
# # 8. Train the agreement toy and read its gradients
#
#     position   0   1     2   3    4     5   6    7
#     token      I   work  ,   you  work  ,   he   ___
#
# The blank asks for an ending: bare, or -s? Only the pronoun at position 6 decides; those at 0 and 3 are bait. Position 7
# must find out by itself where to look.
# %% [markdown] es
# # 8. Entrenar la concordancia y leer sus gradientes
#
#     posición   0   1     2   3    4     5   6    7
#     elemento   I   work  ,   you  work  ,   he   ___
#
# El hueco pide una terminación del verbo inglés: ¿sin nada o con -s? Solo decide el pronombre de la posición 6; los de 0 y 3
# son señuelos. La posición 7 ha de averiguar por sí sola adónde mirar.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.words import speaker
from tinygrad_attn.tasks.agreement import agreement, decode, encode
from tinygrad_attn.tasks.reader import Reader, attention, examine, learn

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
task = agreement(seed=0)
print(len(task.train), len(task.held_out))
for tokens, label in zip(task.held_out.tokens[:3], task.held_out.labels):
    print(decode(tokens), "  ", task.answers[label])
# %% [markdown] en
# **Exercise 1.** What is the answer to `she sing , they sing , you ___`? ("bare" or "-s")
# %% [markdown] es
# **Ejercicio 1.** ¿Cuál es la respuesta a `she sing , they sing , you ___`? ("bare", sin nada, o "-s")
# %%
exercise_1 = Exercise(
    say("The ending after you?", "¿Terminación tras you?"),
    right=task.ask("she sing , they sing , you ___"),
    hint=say("Which pronoun stands at position 6?", "¿Qué pronombre está en la posición 6?"),
    mistakes=[("-s", say("she is bait: it stands at position 0.", "she es un señuelo: está en la posición 0."))],
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# ## The gradient before training
#
# `probe.watch` keeps value and gradient of named intermediates and changes nothing about the run. Before training, attention
# is nearly uniform and the gradient of the scores is tiny everywhere: nobody knows yet where looking would pay.
# %% [markdown] es
# ## El gradiente antes de entrenar
#
# `probe.watch` guarda valor y gradiente de los pasos con nombre y no altera la ejecución. Antes de entrenar, la atención es
# casi uniforme y el gradiente de las puntuaciones es diminuto en todas partes: nadie sabe aún adónde convendría mirar.
# %%
reader = Reader(len(task.answers), seed=0)
tokens, labels = task.train.batch(np.random.default_rng(0), 256)


def inside():
    """Weights and sizes of dL/d(scores), each (8, 8), averaged over 256 sentences and 4 heads."""
    with ta.probe.watch(reader, "block.attn.scores", "block.attn.weights") as seen:
        ta.cross_entropy(reader(tokens), labels).backward()
    gradient = np.abs(seen["block.attn.scores"].grad.numpy()) * len(tokens)  # of one sentence's own loss
    return seen["block.attn.weights"].value.numpy().mean(axis=(0, 1)), gradient.mean(axis=(0, 1))


weights, flow = inside()
print(say("weights of row 7:", "pesos de la fila 7:"), weights[7].round(3))
print(say("dL/d(scores), rows 5, 6, 7:", "dL/d(puntuaciones), filas 5, 6, 7:"))
print(flow[5:].round(6))
# en: only the blank is asked, so only its row has a gradient
# es: solo se pregunta por el hueco, así que solo su fila tiene gradiente
assert (flow[:7] == 0).all() and (flow[7] > 0).all()
reader.zero_grad()
# %% [markdown] en
# **Exercise 2.** Rows 0 to 6 of dL/d(scores) are exactly 0. Is that vanishing? ("yes" or "no")
# %% [markdown] es
# **Ejercicio 2.** Las filas 0 a 6 de dL/d(puntuaciones) son exactamente 0. ¿Es eso desvanecimiento? ("sí" o "no")
# %%
exercise_2 = Exercise(
    say("Is that vanishing?", "¿Es desvanecimiento?"),
    right="no",
    hint=say("Does the loss depend on what position 3 looked at?", "¿Depende la pérdida de lo que miró la posición 3?"),
    mistakes=[
        (
            say("yes", "sí"),
            say(
                "They are true zeros: the loss reads position 7 alone.",
                "Son ceros verdaderos: la pérdida solo lee la posición 7.",
            ),
        )
    ],
    say=say,
)
answer = None
exercise_2(answer)


# %% [markdown] en
# ## Training
#
# Batches of 64, Adam, 60 steps. Watch row 7 of weights and gradient: the gradient wakes up, is soon largest at position 6, the
# weight follows, and when the answers are right the gradient goes to sleep again. The held-out sentences ask for
# verb-pronoun pairs that were never trained.
# %% [markdown] es
# ## Entrenamiento
#
# Lotes de 64, Adam, 60 pasos. Observa la fila 7 de pesos y gradiente: el gradiente despierta, pronto es mayor en la
# posición 6, el peso lo sigue y, cuando las respuestas son correctas, el gradiente vuelve a dormirse. Las frases
# reservadas preguntan por pares de verbo y pronombre que nunca se entrenaron.
# %%
def report(step, loss):
    if step % 12 == 0:
        weights, flow = inside()
        print(f"{step:3}  {say('loss', 'pérdida')} {loss:.3f}")
        print(f"     {say('weights ', 'pesos    ')} {weights[7].round(2)}")
        print(f"     {say('gradient', 'gradiente')} {(1000 * flow[7]).round(2)} / 1000")


learn(reader, task, seed=0, steps=60, on_step=report)
exam = examine(reader, task.held_out)
print(say("held-out accuracy", "acierto en frases reservadas"), exam.accuracy)
print(say("row 7, head mean:", "fila 7, media de cabezas:"), exam.row7.mean(axis=(0, 1)).round(3))
assert exam.accuracy > 0.95 and exam.row7.mean(axis=(0, 1)).argmax() == 6
# %% [markdown] en
# ## Your own sentence
#
# Change the sentence below and run the cell: rows are queries, columns are keys, each row sums to 1, and nothing looks into
# the future.
# %% [markdown] es
# ## Tu propia frase
#
# Cambia la frase y ejecuta la celda: las filas son consultas, las columnas claves, cada fila suma 1 y nada mira al futuro.
# %%
sentence = "we read , it read , everyone ___"
logits, weights = attention(reader, encode(sentence)[None])
print(sentence, "→", task.answers[int(logits.data.argmax())])
words = sentence.split()
print(" " * 9 + " ".join(f"{word:>8}" for word in words))
for word, row in zip(words, weights[0].mean(axis=0)):
    print(f"{word:>8} " + " ".join(f"{weight:8.2f}" for weight in row))
assert np.allclose(weights.sum(axis=-1), 1.0, atol=1e-5)
# %% [markdown] en
# **Exercise 3.** In the printed matrix, which column has the largest weight in the last row? (its number, from 0)
# %% [markdown] es
# **Ejercicio 3.** En la matriz impresa, ¿qué columna tiene el mayor peso en la última fila? (su número, desde 0)
# %%
exercise_3 = Exercise(
    say("Column of the largest weight?", "¿Columna del mayor peso?"),
    right=6,
    hint=say("Columns are keys; count from 0.", "Las columnas son claves; cuenta desde 0."),
    mistakes=[(7, say("Counted from 1, perhaps?", "¿Has contado desde 1?"))],
    say=say,
)
answer = None
exercise_3(answer)

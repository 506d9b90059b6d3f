# %% [markdown] en
# # 9. A Mini-GPT on text
#
# Everything so far, stacked: embeddings (a trained vector for each character and each place), blocks of causal attention
# and an MLP (a small network that works on each place alone), and a read-out that guesses the next character. Nothing new
# is needed for its gradients. d_model is 64 with 4 heads, so each head is 16 wide.
# %% [markdown] es
# # 9. Un Mini-GPT sobre texto
#
# Todo lo anterior, apilado: embeddings (un vector entrenado por cada carácter y cada lugar), bloques de atención causal
# con un MLP (una pequeña red que trabaja en cada lugar por separado) y una lectura que adivina el carácter siguiente. Sus
# gradientes no exigen nada nuevo. d_model es 64 con 4 cabezas, así que cada una mide 16.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.words import speaker

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
# en: a tiny text with rules, so that a minute is enough; put your own in its place
# es: un texto diminuto con reglas, para que baste un minuto; pon el tuyo en su lugar
TEXT = (
    say(
        "the cat sees the dog. the dog sees the cat. the bird sees the cat and the dog. the dog and the cat see the bird. ",
        "el gato ve al perro. el perro ve al gato. el mirlo ve al gato y al perro. el perro y el gato ven al mirlo. ",
    )
    * 20
)
vocabulary = sorted(set(TEXT))
tokens = np.array([vocabulary.index(character) for character in TEXT])
print(len(TEXT), len(vocabulary), "".join(vocabulary))
# %% [markdown] en
# ## The model
# %% [markdown] es
# ## El modelo
# %%
CONTEXT = 32
model = ta.nn.MiniGPT(len(vocabulary), CONTEXT, d_model=64, n_heads=4, n_layers=2, seed=0)
print(model)
print(ta.nn.count_parameters(model.blocks[0].attn))
# %% [markdown] en
# **Exercise 1.** Before training all characters are about equally likely. With V characters, what is the loss in nats? Write
# the number for V = `len(vocabulary)`.
# %% [markdown] es
# **Ejercicio 1.** Antes de entrenar, todos los caracteres son casi igual de probables. Con V caracteres, ¿cuánto vale la
# pérdida en nats? Escribe el número para V = `len(vocabulary)`.
# %%
exercise_1 = Exercise(
    say("Loss before training?", "¿Pérdida antes de entrenar?"),
    right=float(np.log(len(vocabulary))),
    hint=say(
        "-log of the probability of the right character, 1/V.", "-log de la probabilidad del carácter correcto, 1/V."
    ),
    mistakes=[
        (1 / len(vocabulary), say("That is the probability; take -log.", "Esa es la probabilidad; toma -log.")),
        (
            float(np.log2(len(vocabulary))),
            say("Those are bits; use the natural logarithm.", "Son bits; usa el logaritmo natural."),
        ),
    ],
    tolerance=1e-2,
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# ## Training
#
# Each place predicts the next character, so one row of 32 characters is 32 questions. The causal mask keeps the answers out
# of sight.
# %% [markdown] es
# ## Entrenamiento
#
# Cada lugar predice el carácter siguiente, de modo que una fila de 32 caracteres son 32 preguntas. La máscara causal deja
# las respuestas fuera de la vista.
# %%
rng = np.random.default_rng(0)
optimizer = ta.optim.AdamW(model.parameters(), lr=3e-3)
first = None
for step in range(60):
    starts = rng.integers(0, len(tokens) - CONTEXT - 1, 12)
    rows = np.stack([tokens[start : start + CONTEXT + 1] for start in starts])  # (12, 33)
    loss = model.loss(rows)
    first = loss.item() if first is None else first
    optimizer.zero_grad()
    loss.backward()
    ta.optim.clip_grad_norm(optimizer.params, 1.0)
    optimizer.step()
    if step % 15 == 0 or step == 59:
        print(step, round(loss.item(), 3))
assert abs(first - np.log(len(vocabulary))) < 0.3 and loss.item() < 0.6 * first
# %% [markdown] en
# ## It writes
#
# A temperature again: 0 takes the likeliest character each time, a high one gambles.
# %% [markdown] es
# ## Escribe
#
# Otra vez la temperatura: 0 toma cada vez el carácter más probable, una alta se arriesga.
# %%
prompt = np.array([vocabulary.index(character) for character in say("the ", "el ")])
for temperature in (0.0, 0.7, 2.0):
    written = model.generate(prompt, 40, temperature=temperature, seed=0)
    print(f"T = {temperature}: " + "".join(vocabulary[i] for i in written))
# %% [markdown] en
# **Exercise 2.** Which temperature gives the same text every time, whatever the seed?
# %% [markdown] es
# **Ejercicio 2.** ¿Qué temperatura da siempre el mismo texto, sea cual sea la semilla?
# %%
exercise_2 = Exercise(
    say("Which temperature?", "¿Qué temperatura?"),
    right=0,
    hint=say("What does softmax become as T goes to 0?", "¿En qué se convierte softmax cuando T tiende a 0?"),
    mistakes=[
        (
            1,
            say(
                "T = 1 samples from the model's own probabilities.",
                "T = 1 sortea con las probabilidades del propio modelo.",
            ),
        )
    ],
    say=say,
)
answer = None
exercise_2(answer)
# %% [markdown] en
# ## Where does the gradient go?
#
# The meters say how saturated each head is: entropy near 0 means one key, a dead row lets no gradient through.
# %% [markdown] es
# ## ¿Adónde va el gradiente?
#
# Los medidores dicen cuán saturada está cada cabeza: entropía cerca de 0 significa una sola clave, y una fila muerta no deja
# pasar el gradiente.
# %%
with ta.probe.watch(model, "*.weights", "*.scores") as seen:
    loss = model.loss(rows)
    loss.backward()
keep = ta.causal_mask(CONTEXT)
for layer in range(2):
    weights = seen[f"blocks.{layer}.attn.weights"].value
    for head, meter in enumerate(ta.probe.meters(weights, keep)):
        place = say(f"block {layer}, head {head}", f"bloque {layer}, cabeza {head}")
        dead = say(f"{meter.dead:.0%} dead", f"{meter.dead:.0%} muertas")
        print(f"{place}: H/log n {meter.entropy:.2f}, max {meter.largest:.2f}, {dead}")
# en: and nothing comes from the future: the loss of the first place does not touch later embeddings
# es: y nada viene del futuro: la pérdida del primer lugar no toca los embeddings posteriores
model.zero_grad()
model.loss(rows[:, :-1], np.where(np.arange(CONTEXT) == 0, rows[:, 1:], -100)).backward()
assert (model.positions.W.grad.numpy()[1:] == 0).all()

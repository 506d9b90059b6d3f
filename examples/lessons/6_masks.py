# %% [markdown] en
# # 6. Masks
#
# A mask says who may look at whom. Here it is a boolean array: **True = may attend**. What is hidden gets weight exactly
# 0, and no gradient.
# %% [markdown] es
# # 6. Máscaras
#
# Una máscara dice quién puede mirar a quién. Aquí es una matriz de booleanos: **True = puede mirar**. Lo oculto recibe un
# peso exactamente 0, y ningún gradiente.
# %%
import sys

import numpy as np

import tinygrad_attn as ta
from tinygrad_attn.attention.masks import picture
from tinygrad_attn.lab.exercise import Exercise
from tinygrad_attn.lab.words import speaker

LANGUAGE = "es" if "es" in sys.argv[1:] else "en"
say = speaker(LANGUAGE)
rng = np.random.default_rng(0)
# %% [markdown] en
# ## The causal mask
#
# Row i is a query, column j a key; a query may see the past and itself.
# %% [markdown] es
# ## La máscara causal
#
# La fila i es una consulta, la columna j una clave; una consulta puede ver el pasado y a sí misma.
# %%
causal = ta.causal_mask(5)
print(picture(causal))
q, k, v = (ta.Tensor(rng.standard_normal((5, 8)), requires_grad=True) for _ in range(3))
out, weights = ta.scaled_dot_product_attention(q, k, v, mask=causal)
print(weights.numpy().round(3))
assert (weights.numpy()[~causal] == 0).all() and np.allclose(weights.numpy().sum(axis=-1), 1.0)
# %% [markdown] en
# **Exercise 1.** What is the weight of key 0 for query 0 under a causal mask?
# %% [markdown] es
# **Ejercicio 1.** ¿Qué peso tiene la clave 0 para la consulta 0 con una máscara causal?
# %%
exercise_1 = Exercise(
    say("Weight of key 0 for query 0?", "¿Peso de la clave 0 para la consulta 0?"),
    right=1,
    hint=say("How many keys may query 0 see?", "¿Cuántas claves puede ver la consulta 0?"),
    mistakes=[
        (
            0.2,
            say(
                "Only the keys that it may see share the weight.", "Solo se reparten el peso las claves que puede ver."
            ),
        ),
        (0, say("It may see itself.", "Puede verse a sí misma.")),
    ],
    say=say,
)
answer = None
exercise_1(answer)
# %% [markdown] en
# ## Nothing comes from the future
#
# The proof is a gradient: the output at position 2 does not depend on keys and values after 2, so their gradient is
# exactly 0.
# %% [markdown] es
# ## Nada viene del futuro
#
# La prueba es un gradiente: la salida en la posición 2 no depende de claves ni valores posteriores a 2, así que su
# gradiente es exactamente 0.
# %%
out[2].sum().backward()
print(np.abs(k.grad.numpy()).max(axis=-1).round(4), np.abs(v.grad.numpy()).max(axis=-1).round(4))
assert (k.grad.numpy()[3:] == 0).all() and (v.grad.numpy()[3:] == 0).all()
# %% [markdown] en
# ## Hidden before softmax, not after
#
# The scores that may not be seen become -inf *before* softmax. Multiplying the weights by 0 afterwards leaves rows that
# no longer sum to 1, and lets the hidden keys push the others down.
#
# **Exercise 2.** Three equal scores, the last key hidden *after* softmax by multiplying with 0. What does the row sum to?
# %% [markdown] es
# ## Ocultar antes de softmax, no después
#
# Las puntuaciones que no deben verse pasan a -inf *antes* de softmax. Multiplicar los pesos por 0 después deja filas que
# ya no suman 1, y permite que las claves ocultas empujen a las demás hacia abajo.
#
# **Ejercicio 2.** Tres puntuaciones iguales y la última clave oculta *después* de softmax, multiplicando por 0. ¿Cuánto
# suma la fila?
# %%
exercise_2 = Exercise(
    say("Sum of the row?", "¿Suma de la fila?"),
    right=2 / 3,
    hint=say("Three weights of 1/3; one of them is struck out.", "Tres pesos de 1/3; se tacha uno."),
    mistakes=[
        (
            1,
            say(
                "It would be 1 if the key had been hidden *before* softmax.",
                "Sería 1 si la clave se hubiera ocultado *antes* de softmax.",
            ),
        )
    ],
    tolerance=1e-2,
    say=say,
)
answer = None
exercise_2(answer)
# %% [markdown] en
# ## Padding, and masks together
#
# Sentences of different lengths are filled up. `padding_mask` hides the filling; masks are plain arrays, so `&` and `|`
# combine them.
# %% [markdown] es
# ## Relleno y máscaras combinadas
#
# Las frases de distinta longitud se rellenan. `padding_mask` oculta el relleno; las máscaras son matrices corrientes, así
# que `&` y `|` las combinan.
# %%
both = ta.causal_mask(4) & ta.padding_mask([2, 4], 4)
print(picture(both))
# %% [markdown] en
# ## A row that sees nothing
#
# What should a query do that may see no key? Here its output is 0 with gradient 0: never NaN. And what stands behind a mask
# stays there, even if it is NaN itself.
# %% [markdown] es
# ## Una fila que no ve nada
#
# ¿Qué debe hacer una consulta que no puede ver ninguna clave? Aquí su salida es 0 con gradiente 0: nunca NaN. Y lo que está
# tras una máscara se queda allí, aunque sea NaN.
# %%
mask = np.array([[True, True, False], [False, False, False]])
bad = np.array([[1.0], [2.0], [np.nan]])
out, weights = ta.scaled_dot_product_attention(rng.standard_normal((2, 4)), rng.standard_normal((3, 4)), bad, mask)
print(out.numpy().ravel(), weights.numpy().round(3), sep="\n")
assert out.numpy()[1, 0] == 0 and np.isfinite(out.numpy()).all()
# %% [markdown] en
# ## True means "may attend"
#
# Libraries disagree about this. `masked_fill` works the other way round: it fills where its mask is True. A float mask is
# refused, and the message says what to write instead.
# %% [markdown] es
# ## True significa «puede mirar»
#
# Las bibliotecas no se ponen de acuerdo en esto. `masked_fill` funciona al revés: rellena donde su máscara es True. Una
# máscara de números de coma flotante se rechaza, y el mensaje dice qué escribir en su lugar.
# %%
try:
    ta.scaled_dot_product_attention(q, k, v, mask=np.zeros((5, 5)))
except TypeError as error:
    print(error)

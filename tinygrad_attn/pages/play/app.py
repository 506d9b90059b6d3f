# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The live page: a marimo notebook, shown as an app by ``tinygrad-attn play``."""

import marimo

app = marimo.App(width="medium", app_title="tinygrad_attn play")


@app.cell
def _():
    import marimo as mo

    from tinygrad_attn.pages.play import view
    from tinygrad_attn.pages.play.answers import CHARACTERS, MASKS, WORDS, Knobs, bench
    from tinygrad_attn.pages.play.server import served

    learned, say = served()
    return CHARACTERS, Knobs, MASKS, WORDS, bench, learned, mo, say, served, view


@app.cell
def _(learned, mo, say, view):
    _title = say("Attention, live", "La atención, en vivo")
    _intro = say(
        "Type a sentence. A row is the word that looks, a column the word that is looked at; each row of weights sums to 1. "
        "First a trained model, then random vectors in its place: turn the knobs and watch both.",
        "Escribe una frase. Una fila es la palabra que mira, una columna la palabra mirada; cada fila de pesos suma 1. Primero "
        "un modelo entrenado, después vectores al azar en su lugar: mueve los controles y observa ambos.",
    )
    mo.Html(view.style() + view.inside(f"<h1>{_title}</h1><p>{_intro}</p>", view.limits(learned, say)))
    return


@app.cell
def _(CHARACTERS, learned, mo, say):
    sentence = mo.ui.text(
        value=learned.example, label=say("Sentence", "Frase"), full_width=True, debounce=False, max_length=CHARACTERS
    )
    return (sentence,)


@app.cell
def _(MASKS, learned, mo, say, sentence):
    _words = learned.parts(sentence.value)[: learned.limit]
    _nobody = say("no word", "ninguna palabra")
    _hidden = {_nobody: None} | {f"{place}: {word[:16]}": place for place, word in enumerate(_words)}
    hidden = mo.ui.dropdown(_hidden, value=_nobody, label=say("hide from all", "ocultar a todas"))
    _names = dict(
        zip(
            (
                say("causal: itself and before", "causal: ella y las anteriores"),
                say("none: all words", "ninguna: todas las palabras"),
                say("others: all but itself", "otras: todas menos ella"),
            ),
            MASKS,
        )
    )
    mask = mo.ui.dropdown(_names, value=next(iter(_names)), label=say("each word sees", "cada palabra ve"))
    return hidden, mask


@app.cell
def _(mo, say):
    scale = mo.ui.radio(
        {"1/sqrt(d_k)": True, say("1 (unscaled)", "1 (sin escalar)"): False},
        value="1/sqrt(d_k)", label=say("scale", "escala"), inline=True,
    )  # fmt: skip
    _steps = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2, 3, 5, 7, 10, 20, 50]
    temperature = mo.ui.slider(steps=_steps, value=1.0, show_value=True, label=say("temperature", "temperatura"))
    gradients = mo.ui.switch(label=say("gradients instead of values", "gradientes en lugar de valores"))
    d_k = mo.ui.slider(steps=[2**i for i in range(11)], value=64, show_value=True, label="d_k")
    seed = mo.ui.number(start=0, stop=999_999, step=1, value=0, label=say("seed", "semilla"))
    return d_k, gradients, scale, seed, temperature


@app.cell
def _(gradients, hidden, mask, mo, scale, sentence, temperature):
    mo.vstack(
        [
            sentence,
            mo.hstack([scale, temperature], justify="start", wrap=True, gap=1),
            mo.hstack([mask, hidden, gradients], justify="start", wrap=True, gap=1),
        ]
    )
    return


@app.cell
def _(Knobs, hidden, mask, scale, temperature):
    knobs = Knobs(scale.value, float(temperature.value), mask.value or "causal", hidden.value)
    return (knobs,)


@app.cell
def _(gradients, knobs, learned, mo, say, sentence, view):
    _title = say("The trained model", "El modelo entrenado") + f": {learned.name}"
    _body = view.trouble_html(learned, sentence.value, say)
    if not _body:
        _answer = learned.read(sentence.value, knobs)
        _words = learned.words(sentence.value)
        _body = view.model_html(_words, _answer, knobs.keep(len(_words)), gradients.value, say)
    mo.Html(view.inside(f"<h2>{_title}</h2>{_body}"))
    return


@app.cell
def _(d_k, mo, say, seed, view):
    _text = say(
        "The same words, each with a random query, key and value, N(0, 1). Without 1/sqrt(d_k) the scores spread like "
        "sqrt(d_k): raise d_k, leave out the scale, and look at the gradients.",
        "Las mismas palabras, cada una con consulta, clave y valor al azar, N(0, 1). Sin 1/sqrt(d_k) las puntuaciones se "
        "dispersan como sqrt(d_k): sube d_k, quita la escala y mira los gradientes.",
    )
    mo.vstack(
        [
            mo.Html(view.inside(f"<h2>{say('Random vectors', 'Vectores al azar')}</h2><p>{_text}</p>")),
            mo.hstack([d_k, seed], justify="start", wrap=True, gap=1),
        ]
    )
    return


@app.cell
def _(WORDS, bench, d_k, gradients, knobs, learned, mo, say, seed, sentence, view):
    _words = learned.parts(sentence.value)[:WORDS]
    if _words:
        _found = bench(_words, int(d_k.value), int(seed.value or 0), knobs)
        _body = view.bench_html(_found, knobs.keep(len(_words)), gradients.value, say)
    else:
        _body = f"<p class=warn>{say('Type a sentence.', 'Escribe una frase.')}</p>"
    mo.Html(view.inside(_body))
    return


if __name__ == "__main__":
    app.run()

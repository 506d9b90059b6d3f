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
def _(CHARACTERS, learned, mo, say, view):
    sentence = mo.ui.text(
        value=learned.example, label=say("play.sentence"), full_width=True, debounce=False, max_length=CHARACTERS
    )
    _scales = {"1/sqrt(d_k)": True, say("play.unscaled"): False}
    scale = mo.ui.radio(_scales, value="1/sqrt(d_k)", label=say("play.scale"), inline=True)
    _steps = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2, 3, 5, 7, 10, 20, 50]
    temperature = mo.ui.slider(steps=_steps, value=1.0, show_value=True, label=say("play.temperature"))
    gradients = mo.ui.switch(label=say("play.gradients"))
    d_k = mo.ui.slider(steps=[2**i for i in range(11)], value=64, show_value=True, label="d_k")
    seed = mo.ui.number(start=0, stop=999_999, step=1, value=0, label=say("play.seed"))
    _intro = f"<h1>{say('play.title')}</h1><p>{say('play.intro')}</p>"
    mo.Html(view.style() + view.inside(_intro, view.limits(learned, say)))
    return d_k, gradients, scale, seed, sentence, temperature


@app.cell
def _(MASKS, learned, mo, say, sentence):
    _words = learned.parts(sentence.value)[: learned.limit]
    _nobody = say("play.nobody")
    _hidden = {_nobody: None} | {f"{place}: {word[:16]}": place for place, word in enumerate(_words)}
    hidden = mo.ui.dropdown(_hidden, value=_nobody, label=say("play.hide"))
    _masks = {say(f"play.mask {mask}"): mask for mask in MASKS}
    mask = mo.ui.dropdown(_masks, value=next(iter(_masks)), label=say("play.mask"))
    return hidden, mask


@app.cell
def _(gradients, hidden, mask, mo, scale, sentence, temperature):
    _row = {"justify": "start", "wrap": True, "gap": 1}
    mo.vstack([sentence, mo.hstack([scale, temperature], **_row), mo.hstack([mask, hidden, gradients], **_row)])
    return


@app.cell
def _(Knobs, gradients, hidden, learned, mask, mo, say, scale, sentence, temperature, view):
    knobs = Knobs(scale.value, float(temperature.value), mask.value or "causal", hidden.value)
    _title = f"{say('play.model')}: {learned.name}"
    _body = view.trouble_html(learned, sentence.value, say)
    if not _body:
        _answer = learned.read(sentence.value, knobs)
        _words = learned.words(sentence.value)
        _body = view.model_html(_words, _answer, knobs.keep(len(_words)), gradients.value, say)
    mo.Html(view.inside(f"<h2>{_title}</h2>{_body}"))
    return (knobs,)


@app.cell
def _(d_k, mo, say, seed, view):
    _intro = f"<h2>{say('play.random')}</h2><p>{say('play.random intro')}</p>"
    mo.vstack([mo.Html(view.inside(_intro)), mo.hstack([d_k, seed], justify="start", wrap=True, gap=1)])
    return


@app.cell
def _(WORDS, bench, d_k, gradients, knobs, learned, mo, say, seed, sentence, view):
    _words = learned.parts(sentence.value)[:WORDS]
    if _words:
        _found = bench(_words, int(d_k.value), int(seed.value or 0), knobs)
        _body = view.bench_html(_found, knobs.keep(len(_words)), gradients.value, say)
    else:
        _body = f"<p class=warn>{say('play.nothing')}</p>"
    mo.Html(view.inside(_body))
    return


if __name__ == "__main__":
    app.run()

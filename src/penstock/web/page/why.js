// Why was this row dropped? A form for the key, and for the row if one is meant, and the server's answer.

import { clock, h, share } from "./parts.js";

export class Why {
  constructor() {
    this.fields = h("div", { class: "why" });
    this.answer = h("div", { class: "answer", role: "status" });
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); this.ask(); }, oninput: () => this.forget() }, this.fields);
    this.panel = h("section", { class: "panel wide", "aria-label": "Why was this row dropped?" },
      h("h3", {}, "Why was this row dropped?"),
      h("p", { class: "note" }, "The plan and the hash of the key determine the answer; no row is stored. An empty key is the empty text."), this.form, this.answer);
  }

  update(log) {
    const { key, row } = log.head;
    this.id = log.id;
    const shape = JSON.stringify([log.id, key, row]);
    if (this.shape === shape) return;
    this.shape = shape;
    this.key = key.map((name) => new Field(name));
    this.row = row.map((name) => new Field(name, "if one row is meant"));
    this.batch = h("input", { name: "batch", inputmode: "numeric", placeholder: "newest plan", autocomplete: "off" });
    this.arrived = h("input", { name: "arrived", placeholder: "2026-01-31T12:00:00", autocomplete: "off" });
    this.fields.replaceChildren(...[...this.key, ...this.row].map((field) => field.node),
      h("label", {}, "batch", this.batch), h("label", { class: "long" }, "arrived, if in a backlog", this.arrived), h("button", { type: "submit" }, "Why?"));
    this.forget();
  }

  // An answer stands below its own question only.
  forget() {
    this.question = null;
    this.answer.replaceChildren();
  }

  async ask() {
    const asked = new URLSearchParams({ id: this.id }), about = [...this.key];
    this.key.forEach((field, at) => field.put(asked, "key", at));
    if (this.row.some((field) => field.given)) {
      this.row.forEach((field, at) => field.put(asked, "row", at));
      about.push(...this.row);
    }
    for (const one of [this.batch, this.arrived]) if (one.value) asked.append(one.name, one.value);
    const question = this.question = `${asked}`;
    let found;
    try {
      found = await (await fetch(`api/why?${question}`)).json();
    } catch {
      found = { error: "the server did not answer" };
    }
    if (this.question !== question) return;
    if (found.error) { this.answer.replaceChildren(h("p", {}, found.error)); return; }
    const words = about.map((field) => field.words).join(", ");
    this.answer.replaceChildren(...[words ? h("p", { class: "asked" }, words) : null, ...found.text.map((line) => h("p", {}, line)), earlier(found)].filter(Boolean));
  }
}

// A column's value. Any text may be a key, so that it is null is said beside it.
class Field {
  constructor(name, hint = null) {
    this.name = name;
    this.input = h("input", { placeholder: hint, autocomplete: "off", spellcheck: "false" });
    this.isNull = h("input", { type: "checkbox", "aria-label": `${name} is null`, onchange: () => { this.input.disabled = this.isNull.checked; } });
    this.node = h("div", { class: "field" }, h("label", {}, h("span", {}, name), this.input), h("label", { class: "null" }, this.isNull, "null"));
  }

  get given() {
    return this.isNull.checked || this.input.value !== "";
  }

  get words() {
    const { value } = this.input;
    return `${this.name} ${this.isNull.checked ? "is null" : /^-?[0-9.]+$/.test(value) ? `= ${value}` : `= '${value}'`}`;
  }

  put(asked, kind, at) {
    asked.append(kind, this.isNull.checked ? "" : this.input.value);
    if (this.isNull.checked) asked.append(`null_${kind}`, at);
  }
}

function earlier(found) {
  const strip = [...found.earlier].reverse();
  if (strip.length < 2) return null;
  return h("div", {},
    h("div", { class: "strip", role: "img", "aria-label": `Share kept by the last ${strip.length} plans: ${strip.map((one) => share(one.keep)).join(", ")}` },
      strip.map((one) => h("i", { title: `plan ${one.version}, ${clock(one.t)}: ${share(one.keep)} kept${one.reason ? `, ${one.reason}` : ""}` }, h("b", { style: { height: `${100 * one.keep}%` } })))),
    h("p", { class: "note" }, `What the last ${strip.length} plans kept of this key, oldest first.`));
}

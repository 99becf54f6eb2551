// Faults as squiggles under their lines, with what the report says of them where the pointer rests.

import { element } from './dom.js';

export class Marks {
  // `state` and `view` are CodeMirror's modules.
  constructor(state, view) {
    this._state = state;
    this._view = view;
    this._marks = new WeakMap(); // by the shared model: an editor that is made again has the marks, too
    this._views = new WeakMap();
    this._effect = state.StateEffect.define();
  }

  // `marks` are {line, severity, message}.
  set(model, marks) {
    this._marks.set(model, marks);
    for (const view of this._views.get(model) || []) {
      view.dispatch({ effects: this._effect.of(marks) });
    }
  }

  // What an editor of this model needs.
  extension(model) {
    const { StateField } = this._state;
    const { EditorView, ViewPlugin, hoverTooltip } = this._view;
    const field = StateField.define({
      create: state => this._decorations(state, this._marks.get(model) || []),
      update: (found, transaction) => {
        const effect = transaction.effects.find(effect => effect.is(this._effect));
        return effect ? this._decorations(transaction.state, effect.value) : found.map(transaction.changes);
      },
      provide: field => EditorView.decorations.from(field)
    });
    const views = this._views.get(model) || new Set();
    this._views.set(model, views);
    const known = ViewPlugin.define(view => {
      views.add(view);
      return { destroy: () => views.delete(view) };
    });
    const tooltip = hoverTooltip((view, position) => {
      const { from, to } = view.state.doc.lineAt(position);
      let message = '';
      view.state.field(field).between(from, to, (start, end, { spec }) => {
        message = spec.message || message;
      });
      const text = () => ({ dom: element('div', { className: 'wl-tooltip' }, message) });
      return message ? { pos: from, end: to, above: true, create: text } : null;
    });
    return [field, known, tooltip];
  }

  _decorations(state, marks) {
    const { Decoration } = this._view;
    const found = [];
    for (const { line, severity, message } of marks.filter(mark => mark.line <= state.doc.lines)) {
      const { from, to, text } = state.doc.line(line);
      const start = from + text.length - text.trimStart().length;
      found.push(Decoration.line({ class: `wl-line wl-line-${severity}`, message }).range(from));
      if (start < to) {
        found.push(Decoration.mark({ class: `wl-squiggle wl-squiggle-${severity}` }).range(start, to));
      }
    }
    return Decoration.set(found, true);
  }
}

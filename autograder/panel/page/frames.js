// The microscope's pages, docked below the submissions that they are of.

import { element } from './dom.js';

export class Frames {
  constructor(shell, lumino) {
    this._shell = shell;
    this._lumino = lumino;
    this._widgets = new Map(); // by the targets' keys
    this._pages = new Map(); // the same
  }

  show(target, page) {
    let widget = this._widgets.get(target.key);
    if (!widget || widget.isDisposed) {
      widget = this._made(target);
      this._widgets.set(target.key, widget);
      this._shell.add(widget, 'main', { mode: 'split-bottom', ref: target.widget.id });
    }
    this._pages.set(target.key, page);
    this.paint(target.key);
    this._shell.activateById(widget.id);
  }

  // The page asks the browser whether all is dark; here JupyterLab's theme answers.
  paint(...keys) {
    const dark = document.body.dataset.jpThemeLight === 'false';
    for (const key of keys.length ? keys : this._widgets.keys()) {
      const page = this._pages.get(key).replaceAll('(prefers-color-scheme: dark)', dark ? 'all' : 'not all');
      this._widgets.get(key).node.firstChild.srcdoc = page;
    }
  }

  // The page has scripts of its own and no more: no access to JupyterLab's page, cookies or server.
  _made({ key, lab, name }) {
    const widget = new this._lumino.Widget();
    widget.id = `warplab-microscope-${key}`;
    widget.title.label = `Microscope: ${lab}`;
    widget.title.caption = `What the warps of ${name} do`;
    widget.title.closable = true;
    widget.addClass('jp-IFrame');
    widget.addClass('wl-microscope');
    widget.node.append(element('iframe', { title: `Microscope of ${lab}`, sandbox: 'allow-scripts' }));
    return widget;
  }
}

// What the panel shows: the open submission with its last report, then labs and chapters.

import { element } from './dom.js';

const LINE = /\b[Ll]ine (\d+)\b|labs\/(\w+)\/README\.md/g;

export class Panel {
  // `actions`: run(way), microscope(), setLive(whether), goTo(line), open(path), openHandout(path, lab).
  constructor(node, actions, live) {
    this._actions = actions;
    this._opened = new Map(); // sections that the user opened or closed, by their names
    this._title = element('h2', { className: 'wl-target' });
    this._check = this._button('Check', 'A quick check, without the hidden cases', () => actions.run('check'));
    this._grade = this._button('Grade', 'A grade, which counts as progress', () => actions.run('grade'));
    this._microscope = this._button('Microscope', 'What each warp of the profile case does', actions.microscope);
    const box = element('input', { type: 'checkbox', checked: live });
    box.onchange = () => actions.setLive(box.checked);
    this._bar = element('progress', { max: 1, value: 0, 'aria-label': 'Progress of the grade' });
    this._step = element('span');
    this._busy = element('p', { className: 'wl-busy' }, this._bar, this._step);
    this._score = element('p', { role: 'status' });
    this._report = element('div', { className: 'wl-report' });
    this._labs = element('ul');
    this._chapters = element('ul');
    node.classList.add('wl-panel');
    node.append(
      this._title,
      element('p', { className: 'wl-buttons' }, this._check, this._grade, this._microscope),
      element('label', { title: 'On the emulator, half a second after the last key' }, box, 'Check as I type'),
      this._busy,
      this._score,
      this._report,
      this._section('Labs', true, '', this._labs),
      this._section('Chapters', true, '', this._chapters)
    );
    this.showIdle();
    this.showTarget(null);
  }

  // `target` is null or {lab, name}.
  showTarget(target) {
    this._title.textContent = target ? `${target.lab} · ${target.name}` : 'No submission is open';
    this._check.disabled = this._grade.disabled = this._microscope.disabled = !target;
    if (!target) {
      this._score.replaceChildren();
      this._report.replaceChildren(
        element('p', {}, 'Open a lab below, or select a cell that begins with %%submit.')
      );
    }
  }

  showStep({ step, fraction }) {
    this._busy.style.visibility = 'visible';
    this._bar.value = fraction;
    this._step.textContent = step;
  }

  showIdle() {
    this._busy.style.visibility = 'hidden';
  }

  showError(message) {
    this._score.className = 'wl-error';
    this._score.replaceChildren(message);
    this._report.replaceChildren();
  }

  // null takes the report away.
  showReport(report) {
    this._score.className = '';
    this._score.replaceChildren();
    if (report) {
      const done = report.full_marks ? 'wl-passed' : report.status === 'partial' ? 'wl-partial' : 'wl-failed';
      this._score.className = `wl-score ${done}`;
      this._score.append(
        element('strong', {}, `${report.score} of ${report.max_score} points`),
        `: ${report.status}, on the ${report.device} in ${report.seconds.toFixed(1)} s`
      );
    }
    this._report.replaceChildren(...(report ? this._reportNodes(report) : []));
  }

  showContents({ labs, chapters }) {
    this._labs.replaceChildren(...labs.map(lab => this._entry(lab)));
    this._chapters.replaceChildren(...chapters.map(chapter => this._entry(chapter)));
    if (!labs.length) {
      this._labs.append(element('li', {}, 'No labs here. Start JupyterLab in the folder that holds labs/.'));
    }
  }

  _button(text, title, onclick) {
    return element('button', { type: 'button', className: 'jp-mod-styled', title, onclick }, text);
  }

  _link(text, title, onclick) {
    return element('button', { type: 'button', className: 'wl-link', title, onclick }, text);
  }

  _entry({ title, progress, share, files, handout }) {
    const [first, ...others] = files;
    const open = path => () => this._actions.open(path);
    const more = others.map(path => this._link(path.split('/').pop(), `Open ${path}`, open(path)));
    if (handout) {
      more.unshift(this._link('handout', `Open ${handout}`, () => this._actions.openHandout(handout)));
    }
    return element(
      'li',
      {},
      first ? this._link(title, `Open ${first}`, open(first)) : element('span', {}, title),
      element('meter', { value: share, max: 1, title: progress, 'aria-label': progress }),
      element('small', {}, progress),
      more.length ? element('small', {}, ...more) : ''
    );
  }

  _reportNodes(report) {
    return [
      element('p', { className: 'wl-opening' }, ...this._linked(report.opening)),
      report.original ? element('pre', {}, report.original) : '',
      this._budgets(report),
      ...report.parts.map(part => this._part(part)),
      report.printed
        ? this._section('Printed by the kernels', false, '', element('pre', {}, report.printed))
        : '',
      this._counters(report)
    ].filter(node => node);
  }

  _part(part) {
    const score = part.judged ? `${part.score} of ${part.max_score}` : part.status;
    const lines = [
      ...part.cases.map(({ name, message }) => element('li', {}, `${name}: `, ...this._linked(message))),
      ...part.findings.map(({ line, message }) =>
        element('li', {}, ...(/\b[Ll]ine \d/.test(message) || !line ? [] : this._linked(`Line ${line}: `)), ...this._linked(message))
      ),
      ...part.budgets.filter(({ words }) => words && !part.message.includes(words)).map(({ words }) => element('li', {}, words))
    ];
    return this._section(
      part.part,
      part.judged && part.score < part.max_score && lines.length > 0,
      score,
      part.message ? element('p', {}, ...this._linked(part.message)) : '',
      lines.length ? element('ul', {}, ...lines) : ''
    );
  }

  _budgets({ parts }) {
    const budgets = parts.flatMap(part => part.budgets);
    const rows = budgets.map(({ name, value, limit, passed }) =>
      this._row(name, passed ? 'wl-passed' : 'wl-failed', value, Math.round(limit))
    );
    const head = ['counter', 'value', 'budget'].map(text => element('th', { scope: 'col' }, text));
    const table = element('table', {}, element('thead', {}, element('tr', {}, ...head)), element('tbody', {}, ...rows));
    return rows.length ? this._section('Budgets', true, '', table) : '';
  }

  _counters({ counters, note }) {
    const rows = counters.map(({ name, value }) => this._row(name, '', value));
    const table = element('table', {}, element('tbody', {}, ...rows));
    return rows.length ? this._section('All counters of the profile case', false, '', note && element('p', {}, note), table) : '';
  }

  _row(name, className, ...numbers) {
    const cells = numbers.map(number => element('td', {}, number.toLocaleString('en-GB')));
    return element('tr', { className }, element('th', { scope: 'row' }, name), ...cells);
  }

  // Reports come while the user reads: what they opened or closed stays so.
  _section(name, open, beside, ...children) {
    const summary = element('summary', {}, name, beside ? element('span', { className: 'wl-right' }, beside) : '');
    const made = element('details', { open: this._opened.get(name) ?? open }, summary, ...children);
    summary.onclick = () => this._opened.set(name, !made.open);
    return made;
  }

  // A sentence whose lines and handouts can be opened.
  _linked(text) {
    const nodes = [];
    let done = 0;
    for (const found of text.matchAll(LINE)) {
      const [words, line, lab] = found;
      nodes.push(text.slice(done, found.index));
      nodes.push(
        line
          ? this._link(words, `Go to line ${line}`, () => this._actions.goTo(Number(line)))
          : this._link(words, 'Open the handout', () => this._actions.openHandout(null, lab))
      );
      done = found.index + words.length;
    }
    return [...nodes, text.slice(done)];
  }
}

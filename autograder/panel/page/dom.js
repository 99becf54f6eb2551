// Elements of the page. Texts become text nodes, so that nothing of a submission is read as HTML.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== 'list') {
      made[name] = value;
    } else {
      made.setAttribute(name, value);
    }
  }
  made.append(...children.filter(child => child !== null && child !== undefined && child !== ''));
  return made;
}

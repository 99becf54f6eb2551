// Figures that were drawn for every choice: shows the one that is chosen.

for (const explorer of document.querySelectorAll('.wl-states')) {
  const figures = JSON.parse(explorer.querySelector('script').textContent);
  const inputs = [...explorer.querySelectorAll('input')];
  const labels = inputs.map(input => JSON.parse(input.dataset.labels));
  const image = explorer.querySelector('img');
  const refusal = explorer.querySelector('.wl-refusal');
  const show = () => {
    inputs.forEach((input, n) => {
      const label = labels[n][input.valueAsNumber];
      input.nextElementSibling.textContent = label;
      input.setAttribute('aria-valuetext', label);
    });
    const figure = figures[inputs.reduce((place, input, n) => place * labels[n].length + input.valueAsNumber, 0)];
    const drawn = typeof figure === 'string';
    refusal.textContent = drawn ? '' : figure[0];
    image.src = drawn ? figure : image.src;
  };
  explorer.addEventListener('input', show);
  explorer.querySelector('.wl-controls').hidden = false;
}

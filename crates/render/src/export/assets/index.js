/* The index: filter, sort, local dates, theme. */
(() => {
'use strict';
const root = document.documentElement;
const $ = id => document.getElementById(id);
const find = $('find'), found = $('found');

/* Theme, shared with the transcripts. Storage may throw on file://. */
const LOOKS = { auto: '◐', light: '☀\ufe0e', dark: '☾' }, names = Object.keys(LOOKS);
function theme(name) {
  root.dataset.theme = name = LOOKS[name] ? name : 'auto';
  $('theme').textContent = LOOKS[name];
  $('theme').title = $('theme').ariaLabel = 'Colours: ' + name;
}
try { theme(localStorage.getItem('rethread-theme')); } catch { theme(); }
$('theme').onclick = () => {
  theme(names[(names.indexOf(root.dataset.theme) + 1) % 3]);
  try { localStorage.setItem('rethread-theme', root.dataset.theme); } catch { /* not kept */ }
};

const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' });
for (const t of document.querySelectorAll('time')) {
  const d = new Date(t.dateTime);
  if (isNaN(d)) continue;
  t.title = full.format(d);
  t.textContent = date.format(d);
}

/* What a row is found by is put together once, at the first search. */
const sections = [...document.querySelectorAll('.project')].map(box => {
  const link = document.querySelector(`#projects a[href="#${box.id}"]`);
  return {
    box, link, name: box.querySelector('summary').textContent,
    counts: [box, link].map(part => part?.querySelector('.count')).filter(Boolean),
    rows: [...box.querySelectorAll('tbody tr')].map(row => ({ row, text: null })),
  };
});
const total = sections.reduce((n, s) => n + s.rows.length, 0);

function filter() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let all = 0;
  for (const { box, link, name, counts, rows } of sections) {
    let some = 0;
    for (const r of rows) {
      if (words.length && r.text === null) {
        r.text = [r.row.textContent, r.row.dataset.find, name].join(' ').toLowerCase();
      }
      const yes = words.every(w => r.text.includes(w));
      r.row.hidden = !yes;
      some += yes;
    }
    box.hidden = !some;
    if (words.length) box.open = true;
    if (link) link.parentNode.hidden = !some;
    for (const count of counts) count.textContent = some;
    all += some;
  }
  found.textContent = words.length ? `${all.toLocaleString('en')} of ${total.toLocaleString('en')}` : '';
}
let timer;
find.oninput = () => { clearTimeout(timer); timer = setTimeout(filter, 80); };

/* The list of projects unfolds what it leads to. */
for (const { box, link } of sections) link?.addEventListener('click', () => { box.open = true; });

/* Sorting. Numbers and dates begin with the largest. */
for (const { box } of sections) {
  const heads = [...box.querySelectorAll('th')], tbody = box.querySelector('tbody');
  heads.forEach((th, i) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...th.childNodes);
    th.append(button);
    button.onclick = () => {
      const was = th.ariaSort, value = row => {
        const cell = row.cells[i], time = cell.querySelector('time');
        return i === 0 ? cell.textContent : time ? Date.parse(time.dateTime) || 0 : parseFloat(cell.textContent.replace(/\D/g, '')) || 0;
      };
      const up = was ? was === 'descending' : i === 0;
      const keyed = [...tbody.rows].map(row => [value(row), row]);
      keyed.sort(([a], [b]) => (i === 0 ? a.localeCompare(b) : a - b) * (up ? 1 : -1));
      tbody.append(...keyed.map(k => k[1]));
      for (const h of heads) h.removeAttribute('aria-sort');
      th.ariaSort = up ? 'ascending' : 'descending';
    };
  });
}

document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.altKey || e.metaKey || e.isComposing) return;
  if (e.key === '/' && e.target !== find) find.select();
  else if (e.key === 'Escape' && find.value) { find.value = ''; filter(); }
  else return;
  e.preventDefault();
});
if (find.value) filter();
})();

/* A transcript: pages, search, folding, keys, colours of code. */
(() => {
'use strict';
const root = document.documentElement, body = document.body;
const $ = id => document.getElementById(id);
const el = (tag, props, ...kids) => {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...kids);
  return e;
};
const [main, side, menu, find, found, list, outline, button] =
  ['main', 'side', 'menu', 'find', 'found', 'hits', 'outline', 'theme'].map($);
const [pager, bar] = ['.pager', '.tools-bar'].map(s => document.querySelector(s));
const chunks = [];
for (const c of document.querySelectorAll('script.chunk')) chunks[c.dataset.page] = c;
const last = Math.max(1, chunks.length - 1);

/* Theme. Storage may throw on file://. */
const LOOKS = { auto: '◐', light: '☀\ufe0e', dark: '☾' };
function theme(name) {
  root.dataset.theme = name = LOOKS[name] ? name : 'auto';
  button.textContent = LOOKS[name];
  button.title = button.ariaLabel = 'Colours: ' + name;
}
try { theme(localStorage['rethread-theme']); } catch { theme(); }
button.onclick = () => {
  theme({ auto: 'light', light: 'dark' }[root.dataset.theme]);
  try { localStorage['rethread-theme'] = root.dataset.theme; } catch { /* not kept */ }
};

/* Pages. The nodes of page 1 are kept; any other page is made from its chunk. */
const first = main.querySelector('.page');
const format = dateStyle => new Intl.DateTimeFormat(undefined, { dateStyle, timeStyle: 'short' });
const clock = format('medium'), hour = format(), day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
let section = first, page = 1, unfolded = null, spot;

function times(box) {
  for (const t of box.querySelectorAll('time')) {
    const d = new Date(t.dateTime);
    if (isNaN(d)) continue;
    t.title = t.dateTime;
    t.textContent = ('day' in t.dataset ? day : t.closest('.answer') ? hour : clock).format(d);
  }
}

function show(n) {
  if (n === page) return;
  near.disconnect();
  line.disconnect();
  const next = n === 1 ? first : el('section', { className: 'page' });
  if (n > 1) next.innerHTML = chunks[n].textContent;
  section.replaceWith(next);
  section = next;
  page = n;
  arrive();
}

function arrive() {
  spot = null;
  if (page > 1) times(section);
  if (unfolded !== null) fold(unfolded);
  for (const pre of section.querySelectorAll('pre')) near.observe(pre);
  for (const a of section.children) line.observe(a);
  pager.hidden = last < 2;
  const link = (n, sign, title) => {
    const a = el('a', { title, ariaLabel: title }, sign);
    if (n < 1 || n > last || n === page) a.ariaDisabled = true; else a.href = '#p' + n;
    return a;
  };
  pager.replaceChildren(link(1, '«', 'First page'), link(page - 1, '‹', 'Previous page'),
    `page ${page} of ${last}`, link(page + 1, '›', 'Next page'), link(last, '»', 'Last page'));
}

function pageOf(id) {
  if (section.contains($(id))) return page;
  if (first.querySelector('#' + CSS.escape(id))) return 1;
  return chunks.findIndex(c => c?.textContent.includes(`id="${id}"`));
}

/* The hash says what is shown: #p2 is a page, anything else an element on some page. */
function go(id) {
  const p = /^p(\d+)$/.exec(id);
  if (p) {
    show(Math.min(Math.max(p[1], 1), last));
    main.scrollIntoView();
    main.focus({ preventScroll: true });
  } else if (!id) {
    show(1);
    scrollTo(0, 0);
  } else if (pageOf(id) > 0) {
    show(pageOf(id));
    const target = $(id), hit = hits.findIndex(h => h.id === id);
    unwrap(target);
    if (hit >= 0) point(hit);
    const match = hit >= 0 && mark(target)[0];
    if (!(match || target).getClientRects().length) for (const t in shown) toggle(t, true);
    target.scrollIntoView();
    if (match) bring(match);
    locate();
    const easing = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'step-end' : 'ease-in';
    target.animate({ boxShadow: ['0 0 0 6px var(--bg), 0 0 0 8px var(--accent)', 'none'] }, { duration: 1600, easing });
  }
}

function unwrap(node) {
  for (; node && node !== section; node = node.parentElement) if (node.localName === 'details') node.open = true;
}

/* Unlike a fragment navigation this moves no focus and leaves no trail of history. */
function visit(id) {
  try { history.replaceState(null, '', '#' + id); } catch { /* shown all the same */ }
  go(id);
}
const turn = by => { if (page + by > 0 && page + by <= last) location.hash = 'p' + (page + by); };

/* Outline: the current prompt is the last one before what crosses a line near the top. */
const links = [...outline.querySelectorAll('a')].filter(a => /^#m\d+$/.test(a.hash));
const numbers = links.map(a => +a.hash.slice(2));
let current = -1;
const line = new IntersectionObserver(entries => {
  for (const e of entries) if (e.isIntersecting) spot = e.target;
  locate();
}, { rootMargin: '-20% 0px -79% 0px' });

function locate() {
  // At the very end of a page the line cannot reach what was jumped to.
  const end = scrollY + innerHeight > root.scrollHeight - 3 && $(location.hash.slice(1));
  const here = end && end.parentNode === section ? end : spot;
  if (!here || !/^m\d/.test(here.id)) return;
  const i = numbers.filter(n => n <= here.id.slice(1)).length - 1;
  if (i === current) return;
  links[current]?.removeAttribute('aria-current');
  current = i;
  if (links[i]) select(links[i], outline);
}

function select(link, box) {
  link.setAttribute('aria-current', 'true');
  const a = link.getBoundingClientRect(), b = box.getBoundingClientRect();
  if (a.top < b.top || a.bottom > b.bottom) box.scrollTop += a.top - b.top - b.height / 3;
}

/* Counts from the prompt jumped to last while it is still where the jump put it: the observer reports later,
   and not at all while the page is busy. */
function prompt(by) {
  const top = i => $('m' + numbers[i])?.getBoundingClientRect().top;
  const jumped = numbers.indexOf(+location.hash.slice(2)), at = top(jumped);
  const from = at >= -5 && at < innerHeight / 5 ? jumped : current;
  const i = by < 0 && top(from) < -5 ? from : from + by;
  if (links[i]) visit('m' + numbers[i]);
}

/* Folding. What is being read stays where it is on the screen. */
function still(change) {
  const top = () => spot?.getBoundingClientRect().top || 0, old = top();
  change();
  scrollBy(0, top() - old);
}
function fold(open) {
  unfolded = open;
  for (const d of section.querySelectorAll('details')) d.open = open;
}
const shown = { tools: $('show-tools'), thinking: $('show-thinking') };
function toggle(what, on = shown[what].checked) {
  shown[what].checked = on;
  still(() => body.classList.toggle('no-' + what, !on));
}
for (const t in shown) {
  shown[t].onchange = () => toggle(t);
  toggle(t); // a reload may keep the box unchecked
}
$('unfold').onclick = () => still(() => fold(true));
$('fold').onclick = () => still(() => fold(false));

/* Search, by message. Text is taken out of the chunks once, in slices. */
const texts = [];
const INLINE = /^(?:[abisu]|em|strong|code|span|mark|del|ins|sub|sup|kbd|time)$/;
const CHARS = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: ' ' };
const plain = html => html.replace(
  /<header>[^]*?<\/header>|<h4>(?:Input|Result)<\/h4>|<summary>Thinking<\/summary>|<\/?(\w+)[^>]*>|&(#?\w+);/g,
  (all, tag, char) => char ? CHARS[char] || "'" : INLINE.test(tag) ? '' : '\n');

function textsOf(n) {
  if (texts[n]) return texts[n];
  const html = n > 1 ? chunks[n]?.textContent || '' : first.innerHTML;
  const out = texts[n] = [], open = [];
  let from = 0;
  for (const m of html.matchAll(/<article class="msg[^>]*? id="([^"]*)"[^>]*>|<\/article>/g)) {
    if (open[0]) open[0].text += plain(html.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[1]) open.unshift(out[out.push({ id: m[1], text: '' }) - 1]); else open.shift();
  }
  return out;
}

let query, asked = '', hits = [], at = -1, run = 0, timer, busy, wish = 0;

function search() {
  const mine = ++run;
  asked = find.value.trim();
  hits = [];
  at = -1;
  busy = outline.hidden = !!asked;
  list.hidden = !asked;
  list.replaceChildren();
  found.textContent = asked && 'Searching…';
  CSS.highlights?.delete('find');
  query = new RegExp(asked.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replace(/\s+/g, '\\s+'), 'gi');
  let n = 1;
  if (asked) (function step() {
    if (mine !== run) return;
    for (const end = performance.now() + 12; n <= last && performance.now() < end; n++) {
      for (const doc of textsOf(n)) {
        query.lastIndex = 0;
        const m = query.exec(doc.text);
        if (m && hits.push(doc) <= 200) list.append(item(doc, m));
      }
    }
    if (n <= last) { setTimeout(step); return; }
    busy = false;
    const all = hits.length;
    found.textContent = all.toLocaleString('en') + (all === 1 ? ' message' : ' messages') + (all > 200 ? ', 200 listed' : '');
    if (wish) next();
  })();
}

function item({ id, text }, { index, 0: { length } }) {
  const cut = (a, b) => text.slice(Math.max(0, a), b).replace(/\s+/g, ' '), end = index + length;
  return el('li', {}, el('a', { href: '#' + id }, el('span', {}, '#' + id.replace(/^m/, '')),
    (index > 40 ? ' …' : ' ') + cut(index - 40, index), el('mark', {}, cut(index, end)), cut(end, end + 90)));
}

function next() {
  const all = hits.length, i = at < 0 && wish < 0 ? all - 1 : (at + wish + all) % all;
  wish = 0;
  if (all) visit(hits[i].id);
}

function point(i) {
  list.children[at]?.firstChild.removeAttribute('aria-current');
  at = i;
  if (list.children[i]) select(list.children[i].firstChild, list);
}

/* The matches in one message, unfolded. Dressing moves nodes, so it comes first. */
function mark(box) {
  box.querySelectorAll('pre').forEach(dress);
  const nodes = [], starts = [], ranges = [];
  const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  let text = '', i = 0, node;
  while ((node = walk.nextNode())) {
    if (node.parentElement.closest('header, article') !== box) continue;
    nodes.push(node);
    starts.push(text.length);
    text += node.data;
  }
  query.lastIndex = 0;
  for (const m of text.matchAll(query)) {
    const end = m.index + m[0].length, range = new Range();
    while (starts[i + 1] <= m.index) i++;
    range.setStart(nodes[i], m.index - starts[i]);
    unwrap(nodes[i].parentElement);
    while (starts[i + 1] < end) i++;
    range.setEnd(nodes[i], end - starts[i]);
    if (ranges.push(range) === 500) break;
  }
  CSS.highlights?.set('find', new Highlight(...ranges));
  return ranges;
}

function bring(range) {
  const pre = range.startContainer.parentElement.closest('pre');
  const r = range.getBoundingClientRect(), b = pre?.getBoundingClientRect();
  pre?.scrollBy(r.right > b.right ? r.left - b.left - 60 : 0, r.top - b.top - b.height / 3);
  const { top, bottom } = range.getBoundingClientRect();
  if (top < 70 || bottom > innerHeight - 70) scrollBy(0, top - innerHeight / 3);
}

find.oninput = () => {
  clearTimeout(timer);
  timer = setTimeout(() => asked !== find.value.trim() && search(), 150);
};

/* Side: a drawer on narrow screens. It takes in the controls. */
const narrow = matchMedia('(max-width: 899px)');
const isOpen = () => root.classList.contains('open');
function drawer(open) {
  root.classList.toggle('open', open);
  menu.ariaExpanded = main.parentNode.inert = open;
  if (open) side.focus(); else if (narrow.matches && side.contains(document.activeElement)) menu.focus({ preventScroll: true });
}
narrow.onchange = () => drawer(false);
side.tabIndex = -1;
side.append(bar);
menu.onclick = () => drawer(!isOpen());
document.addEventListener('click', e => {
  if (isOpen() && (e.target.closest('#side a') || !e.target.closest('#side, .bar'))) drawer(false);
});

/* Keys */
const KEYS = {
  '/': ['search', () => { if (narrow.matches) drawer(true); find.select(); }],
  Enter: ['next hit; with Shift, the one before'],
  j: ['next prompt', () => prompt(1)],
  k: ['previous prompt', () => prompt(-1)],
  ']': ['next page', () => turn(1)],
  '[': ['previous page', () => turn(-1)],
  e: ['expand or collapse all', () => still(() => fold(!unfolded))],
  t: ['tools on or off', () => toggle('tools', !shown.tools.checked)],
  h: ['thinking on or off', () => toggle('thinking', !shown.thinking.checked)],
  '?': ['show these keys', () => help.showModal()],
  Escape: ['clear, close', () => drawer(false)],
};
const help = el('dialog', { ariaLabel: 'Keys' }, el('dl', {}, ...Object.entries(KEYS).flatMap(
  ([key, [what]]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)])),
  el('button', { onclick: () => help.close() }, 'Close'));
body.append(help);
bar.append(el('button', { type: 'button', title: 'Keys', onclick: KEYS['?'][1] }, '?'));

document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.altKey || e.metaKey || e.isComposing || help.open) return;
  const act = KEYS[e.key]?.[1], typing = e.target === find;
  if (typing && e.key === 'Enter') {
    wish = e.shiftKey ? -1 : 1;
    drawer(false);
    if (asked !== find.value.trim()) search(); else if (!busy) next();
  } else if (typing && e.key === 'Escape') {
    if (find.value) find.value = ''; else { find.blur(); drawer(false); }
    search();
  } else if (!typing && act) {
    act();
  } else return;
  e.preventDefault();
});

/* Code: a copy button and colours, once a block comes near. */
const dressed = new WeakSet();
const near = new IntersectionObserver(entries => {
  for (const e of entries) if (e.isIntersecting) dress(e.target);
}, { rootMargin: '400px' });

function dress(pre) {
  near.unobserve(pre);
  if (dressed.has(pre)) return;
  dressed.add(pre);
  const box = el('div', { className: 'box' });
  pre.replaceWith(box);
  box.append(pre, copier());
  const code = pre.querySelector('code[class^=lang-]'), re = code && lexerOf(code.className.slice(5).toLowerCase());
  if (!re) return;
  const text = code.textContent, out = new DocumentFragment();
  lex(text.slice(0, 1e5), re, out);
  out.append(text.slice(1e5));
  code.replaceChildren(out);
}

const copier = () => el('button', { type: 'button', className: 'copy', ariaLabel: 'Copy', onclick: copy });
async function copy({ target: { previousSibling: pre, dataset } }) {
  let ok = true;
  try { await navigator.clipboard.writeText(pre.textContent); } catch {
    getSelection().selectAllChildren(pre);
    ok = document.execCommand('copy');
  }
  dataset.said = ok ? 'Copied' : 'Selected';
  setTimeout(() => delete dataset.said, 1500);
}

/* A lexer is one regex of named groups, tried in order: comment, string, attribute, number,
   keyword, type, function, property, word, markup. A pattern is bounded, or takes the end
   of the text for its closer; so the time stays linear. */
const R = String.raw;
const quoted = q => R`${q}[^${q}\\\n]*(?:\\[^][^${q}\\\n]*)*${q}?`;
const until = (from, to) => R`${from}[^]*?(?:${to}|(?![^]))`;
const STR = `${quoted('"')}|${quoted("'")}`, HASH = R`(?<!\S)#.*`, BLOCK = until(R`/\*`, R`\*/`);
const VAR = R`\$(?:\w+|[@#?*!$^<]|[{(][^})\n]{0,99}[})])`;
const code = (c, s, a = R`@\w+`) => ({ c, s, a, n: R`\b\d(?:\w|\.\d)*`, w: R`[A-Za-z_$][\w$]*` });
const LEXERS = {
  'js jsx ts tsx javascript typescript json jsonc go java c cpp cs csharp kotlin swift php dart scala':
    code('//.*|' + BLOCK, R`${STR}|\x60[^\x60\\]*(?:\\[^][^\x60\\]*)*\x60?|(?<=[=(,:[!&|?] ?)/(?![*/ ])[^/\\\n]*(?:\\.[^/\\\n]*)*/[a-z]*`, R`@\w+|^[ \t]{0,99}# ?\w+`),
  'rust rs': code('//.*|' + BLOCK, R`\bb?r(?:#"[^]{0,3000}?"#|"[^"]*"?)|${quoted('"')}|'(?:\\[^'\n]{1,9}|[^'\\\n])'`, R`'\w+|#!?\[[^\]\n]{0,200}\]`),
  'python py': code('#.*', `${until('"""', '"""')}|${until("'''", "'''")}|${STR}`),
  'ruby rb': code('#.*', STR, R`(?<!:):\w+|@\w+`),
  lua: code(`${until(R`--\[\[`, R`\]\]`)}|--.*`, `${STR}|${until(R`\[\[`, R`\]\]`)}`),
  sql: { c: '--.*|' + BLOCK, s: STR, k: R`\b(?:[A-Z]{2,}|select|from|where|join|on|and|or|not|insert|into|values|update|set|delete|create|table|order|group|by|limit)\b(?!\()`, n: R`\b\d[\d.]*`, w: R`\w+` },
  'bash sh zsh shell console dockerfile': { c: R`${HASH}|^\$ `, s: R`"[^"\\]*(?:\\[^][^"\\]*)*"?|'[^']*'`, p: VAR, a: R`(?<=\s)--?[a-zA-Z][\w-]*`, k: '^[A-Z]{2,}(?= )', f: R`(?:^[ \t]*|(?<=[|;&(] ?|^\$ ))[\w./-]+(?![\w./=-])`, w: R`[\w./=-]+` },
  'makefile make': { c: HASH, p: R`${VAR}|^[\w.]+(?= ?[:?+]?=)`, f: R`^[^\s:=#][^:=\n]{0,200}(?=:)`, s: STR },
  'html xml svg vue': { c: until('<!--', '-->'), x: R`<[/!?]?[\w:-](?:"[^"]*"|'[^']*'|[^<>"'])*>?`, n: R`&#?\w{1,12};` },
  tag: { t: R`^<[/!?]?[\w:.-]+|[/?]?>$`, s: STR, a: R`[^\s"'=<>/]+` },
  'css scss less': { c: BLOCK + '|(?<!:)//.*', s: STR, k: R`@[\w-]+|!\w+`, n: R`#[\da-f]{3,8}\b|(?<![\w-])-?\.?\d[\w.%]*`, t: R`[.#&$][\w-]+|:[a-z][\w-]*(?=[^;\n]{0,80}[,{])`, w: R`[\w-]+` },
  'yaml yml toml ini': { c: HASH, s: STR, t: R`^[ \t]{0,99}\[.*`, p: R`^[ \t]{0,99}(?:- ){0,9}[\w./-]+(?= ?=|:(?:\s|$))`, n: R`(?<![\w-])\d[\w.:-]*`, w: R`[\w-]+` },
  'diff patch': { k: '^(?:diff|index|---|[+]{3}) .*', f: '^@@.*', i: '^[+].*', d: '^-.*' },
  'markdown md': { k: '^#{1,6} .*', s: R`${until('^\x60{3}', '^\x60{3}')}|\x60[^\x60\n]{1,200}\x60`, c: '^>.*', t: R`\*\*[^*\n]{1,200}\*\*`, f: R`\[[^\]\n]{0,200}\]\([^)\n]{0,300}\)`, n: R`^[ \t]{0,99}(?:[-*+]|\d{1,9}\.) ` },
};
/* One list for all languages: a name after a dot or before a colon is not taken for a keyword. */
const WORDS = new Set('abstract and as assert async await bool boolean break byte case catch char class const continue crate def default defer del delete do done double dyn elif else elsif end enum esac except export extends extern false False fi final finally float fn for from fun func function go if impl implements import in instanceof int interface is lambda let local long loop match mod module move mut namespace new nil None not null number of or override package pass private protected pub public raise readonly ref require rescue return self Self static str string struct super switch then this throw trait true True try type typeof undefined unless unsafe until use using val var void when where while with yield u8 u32 u64 usize i32 i64 f64'.split(' '));

function lexerOf(name) {
  const key = Object.keys(LEXERS).find(k => k.split(' ').includes(name));
  return key && new RegExp(Object.entries(LEXERS[key]).map(([k, v]) => `(?<${k}>${v})`).join('|'), 'gm');
}
const TAG = lexerOf('tag');

function lex(text, re, out) {
  let from = 0;
  for (const m of text.matchAll(re)) {
    const [all] = m, to = m.index + all.length, after = text.slice(to, to + 2);
    let kind = Object.keys(m.groups).find(k => m.groups[k] !== undefined);
    const word = kind === 'w' || kind === 'f';
    if (kind === 's' && after[0] === ':' || kind === 'w' && after === ': ') kind = 'p';
    else if (word && WORDS.has(all.trim()) && text[m.index - 1] !== '.') kind = 'k';
    else if (kind === 'w') kind = /^!?\(/.test(after) ? 'f' : /^[A-Z]/.test(all) ? 't' : '';
    if (!kind) continue;
    out.append(text.slice(from, m.index));
    from = to;
    if (kind === 'x') lex(all, TAG, out); else out.append(el('span', { className: 'h' + kind }, all));
  }
  out.append(text.slice(from));
}

$('resume')?.after(copier());
times(body);
arrive();
onhashchange = () => go(location.hash.slice(1));
if (location.hash) onhashchange();
})();

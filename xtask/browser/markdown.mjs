// Renders exported Markdown with several renderers, HTML enabled, and checks in a browser that text from a log stays
// text: it runs no script, sends no request, and creates no element, attribute or URL that is not on a list.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const { CHROMIUM, TOOLS, MARKDOWN, RENDERED } = process.env;
const require = createRequire(path.join(TOOLS, 'package.json'));
const load = async name => import(pathToFileURL(require.resolve(name)).href);
const { chromium } = (await load('playwright-core')).default;

const commonmark = await load('commonmark').then(m => m.default ?? m);
const MarkdownIt = (await load('markdown-it')).default;
const { marked } = await load('marked');
const { micromark } = await load('micromark');
const { gfm, gfmHtml } = await load('micromark-extension-gfm');

const markdownIt = new MarkdownIt({ html: true, linkify: true });
// The export must not rely on a renderer to refuse dangerous links.
markdownIt.validateLink = () => true;
const parser = new commonmark.Parser(), writer = new commonmark.HtmlRenderer({ safe: false });
const dangerous = { allowDangerousHtml: true, allowDangerousProtocol: true };
const RENDERERS = {
  commonmark: text => writer.render(parser.parse(text)),
  'markdown-it': text => markdownIt.render(text),
  'markdown-it-text': text => new MarkdownIt({ html: false, linkify: true }).render(text),
  marked: text => marked.parse(text, { gfm: true }),
  micromark: text => micromark(text, { ...dangerous, extensions: [gfm()], htmlExtensions: [gfmHtml()] }),
};

const FILES = fs.readdirSync(MARKDOWN).filter(name => name.endsWith('.md')).sort();
for (const [name, render] of Object.entries(RENDERERS)) {
  fs.mkdirSync(path.join(RENDERED, name), { recursive: true });
  for (const file of FILES) {
    const html = render(fs.readFileSync(path.join(MARKDOWN, file), 'utf8'));
    fs.writeFileSync(path.join(RENDERED, name, file.replace(/md$/, 'html')), html);
  }
}

/** Runs in the page: finds elements and attributes that exported Markdown cannot produce. */
function unexpectedElements() {
  const TAGS = new Set(`html head body h1 h2 h3 h4 h5 h6 p ul ol li blockquote pre code em strong del s b i a br hr table thead
    tbody tr th td input details summary sub dl dt dd img span`.split(/\s+/));
  const ownFiles = /^(images\/[\w.-]+|(\.\.\/)?(transcript_|subagents\/|README\.md)[\w./-]*(#\w+)?)$/;
  const text = /^[\s\S]*$/;
  const ATTRIBUTES = {
    a: { href: /^(https?:\/\/|mailto:|#)|^(\.\.\/)?(transcript_|subagents\/|README\.md)[\w./#-]*$/i, id: /^[\w-]*m\d+$/, title: text },
    img: { src: ownFiles, alt: text },
    code: { class: /^(language-|lang-)?[\w+#.-]*( language-[\w+#.-]+)?$/ }, pre: { class: /^[\w-]*$/ },
    th: { align: /^\w+$/, style: /^text-align: ?\w+;?$/ }, td: { align: /^\w+$/, style: /^text-align: ?\w+;?$/ },
    span: { class: /^math$/ }, div: { class: /^math$/ },
    ol: { start: /^\d+$/ }, ul: { class: /^[\w -]*$/ }, li: { class: /^[\w -]*$/ }, details: { open: /^$/ },
    input: { type: /^checkbox$/, disabled: text, checked: text, class: /^[\w-]*$/ },
  };
  return [...document.querySelectorAll('*')].filter(e => {
    const known = ATTRIBUTES[e.localName] ?? {};
    return !TAGS.has(e.localName) || [...e.attributes].some(({ name, value }) => !known[name]?.test(value));
  }).map(e => e.outerHTML.slice(0, 200)).slice(0, 20);
}

/** Runs in the page: returns the texts of all headings outside quotes and lists. */
const headings = () => [...document.querySelectorAll('h1, h2, h3')]
  .filter(h => !h.closest('blockquote, li')).map(h => h.textContent.trim());

const browser = await chromium.launch({
  executablePath: CHROMIUM, headless: true, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
}).catch(error => { console.log(`${error}`.slice(0, 2000)); process.exit(77); });

async function check(renderer, file) {
  const source = fs.readFileSync(path.join(MARKDOWN, file), 'utf8');
  const html = fs.readFileSync(path.join(RENDERED, renderer, file.replace(/md$/, 'html')), 'utf8');
  const context = await browser.newContext();
  const page = await context.newPage(), faults = [];
  page.on('dialog', dialog => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss().catch(() => {}); });
  page.on('popup', popup => faults.push(`popup: ${popup.url()}`));
  const start = 'http://page.invalid/x.html';
  await context.route('**', route => {
    const url = route.request().url();
    if (url === start) return route.fulfill({ contentType: 'text/html; charset=utf-8', body: `<!doctype html><body>${html}` });
    if (!/^http:\/\/page\.invalid\/images\/[\w.-]+$/.test(url)) faults.push(`request: ${url.slice(0, 200)}`);
    return route.abort();
  });
  await page.goto(start);
  await page.evaluate(() => { for (const part of document.querySelectorAll('details')) part.open = true; });
  // Triggers handlers that would run on user input.
  await page.evaluate(() => {
    for (const e of document.querySelectorAll('*')) {
      for (const kind of ['mouseover', 'click', 'focus', 'error', 'load']) {
        const event = new Event(kind, { bubbles: true, cancelable: true });
        e.addEventListener(kind, event => event.preventDefault(), { once: true });
        e.dispatchEvent(event);
      }
    }
  });
  const owned = await page.evaluate(() => window.owned);
  if (owned !== undefined) faults.push(`a script of the log ran: ${owned}`);
  const tagged = renderer !== 'markdown-it-text';
  faults.push(...(await page.evaluate(unexpectedElements)).map(found => `not on the list: ${found}`));
  const found = await page.evaluate(headings);
  // The heading of a turn quotes its prompt; a forged one would have the number of another.
  const [turns, others] = [true, false].map(turn => found.filter(text => /^Turn \d+(: |$)/.test(text) === turn));
  const forged = others.filter(text => text.includes('forged') || text.includes('behind'));
  forged.push(...turns.filter((text, i) => parseInt(text.slice(5)) !== i + 1));
  if (forged.length) faults.push(`forged headings: ${forged.slice(0, 5).join(' | ')}`);
  const prose = source.replace(/^(`{3,})[^`\n]*\n[\s\S]*?^\1$/gm, '');
  const messages = [...prose.matchAll(/^### (<a id="\w+"><\/a>|User, while)/gm)].length;
  const headed = [...prose.matchAll(/^## Turn \d/gm)].length;
  if (turns.length !== headed) faults.push(`${turns.length} of ${headed} turns have their heading`);
  const shown = others.filter(text => tagged ? / · #\d+|while the model was busy/.test(text) : true).length;
  if (tagged && shown !== messages) faults.push(`${shown} of ${messages} messages have their heading`);
  const text = await page.evaluate(() => document.body.textContent);
  const words = new Set(source.match(/behind (prompt|answer|thinking|result) [\d.]+\d/g));
  const lost = [...words].filter(words => !text.includes(words));
  if (lost.length) faults.push(`missing: ${lost.slice(0, 5).join(', ')}`);
  await context.close();
  return faults;
}

let failed = 0;
assert.ok(FILES.length > 0, 'no Markdown to render');
const renderers = fs.readdirSync(RENDERED).sort();
assert.ok(renderers.length >= 5, `${renderers}`);
for (const renderer of renderers) {
  for (const file of FILES) {
    const faults = await check(renderer, file);
    failed += faults.length > 0;
    console.log(`${faults.length ? 'FAILED' : 'ok    '} ${renderer}: ${file}`);
    for (const fault of faults) console.log(`       ${fault}`);
  }
}
await browser.close();
process.exit(failed && 1);

// Opens exported transcripts in a browser and checks what a reader would see and do.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const { CHROMIUM, PLAYWRIGHT, PAGES, SCREENSHOTS } = process.env;
const { chromium } = (await import(PLAYWRIGHT)).default;

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
const WAIT = 5_000;
const WHOLE_RUN = 90_000;

const HTML = fs.readdirSync(PAGES, { recursive: true }).filter(name => name.endsWith('.html')).sort();
const transcripts = part => HTML.filter(name => name.startsWith('transcript_') && name.includes(part));
const one = part => {
  const names = transcripts(part);
  assert.equal(names.length, 1, `files like ${part}`);
  return names[0];
};
const urlOf = name => pathToFileURL(path.join(PAGES, name)).href;

let browser;
let open = [];

/** Opens a file in a browser profile of its own. What a page must never do is noted in `faults`. */
async function visit(name, { size = DESKTOP, hash = '', dark = false, until = 'load' } = {}) {
  const context = await browser.newContext({
    viewport: size, isMobile: size === PHONE, hasTouch: size === PHONE, colorScheme: dark ? 'dark' : 'light',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  page.setDefaultNavigationTimeout(15_000);
  page.faults = new Set();
  page.expected = new Set([urlOf(name)]);
  const fault = said => page.faults.add(said.slice(0, 300));
  page.on('pageerror', error => fault(`uncaught ${error}`));
  page.on('console', said => ['error', 'warning'].includes(said.type()) && fault(`console: ${said.text()}`));
  page.on('dialog', dialog => { fault(`dialog: ${dialog.message()}`); dialog.dismiss().catch(() => {}); });
  page.on('popup', popup => fault(`popup: ${popup.url()}`));
  page.on('request', request => {
    const url = request.url().split('#')[0];
    if (!url.startsWith('data:') && !page.expected.delete(url)) fault(`request: ${url}`);
  });
  open.push(page);
  await page.goto(urlOf(name) + hash, { waitUntil: until });
  return page;
}

async function close(page) {
  open = open.filter(other => other !== page);
  const owned = await page.evaluate(() => window.owned);
  if (owned !== undefined) page.faults.add(`a script of the log ran: ${owned}`);
  await page.context().close();
  assert.deepEqual([...page.faults], [], 'faults of the page');
}

/** Waits until what a selector finds stands on the screen with nothing over it. */
async function onScreen(page, selector, what = selector) {
  const seen = page.waitForFunction(selector => {
    const found = document.querySelector(selector), box = found?.getBoundingClientRect();
    if (!box?.height || box.top < -1 || box.top > innerHeight - 10) return false;
    const hit = document.elementFromPoint(box.left + Math.min(box.width, 20) / 2, box.top + Math.min(box.height, 16) / 2);
    return found.contains(hit);
  }, selector);
  await seen.catch(() => assert.fail(`${what} is not on the screen`));
}

async function becomes(page, what, test, arg) {
  await page.waitForFunction(test, arg).catch(() => assert.fail(`not so: ${what}`));
}

const pagesOf = page => page.evaluate(() => document.querySelectorAll('script.chunk').length + 1);
const counts = (page, selector) => page.locator(selector).count();
const visible = (page, selector) => page.locator(selector).filter({ visible: true }).count();
const background = page => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

async function turnTo(page, n, last) {
  await page.evaluate(n => { location.hash = 'p' + n; }, n);
  if (last > 1) await becomes(page, `page ${n} is shown`, text => document.querySelector('.pager').textContent.includes(text), `page ${n} of ${last}`);
}

/** Folds or unfolds all and runs the eye over the page. Returns how wide the page is. */
function readThrough(page, unfolded) {
  return page.evaluate(async unfolded => {
    document.getElementById(unfolded ? 'unfold' : 'fold')?.click();
    for (const part of document.querySelectorAll('details')) part.open = unfolded;
    const root = document.scrollingElement, step = Math.max(innerHeight, root.scrollHeight / 15);
    for (let y = 0; y < root.scrollHeight; y += step) {
      scrollTo(0, y);
      await new Promise(requestAnimationFrame);
    }
    return root.scrollWidth;
  }, unfolded);
}

async function search(page, words, answer) {
  await page.fill('#find', words);
  await becomes(page, `a search for "${words}" says ${answer}`,
    answer => new RegExp(answer).test(document.getElementById('found').textContent), answer);
}

/* The checks */

async function everyFileIsQuiet() {
  assert.ok(HTML.length >= 11, `${HTML.length} files`);
  const wrong = [];
  for (const name of HTML) {
    for (const size of [PHONE, DESKTOP]) {
      const page = await visit(name, { size });
      const last = await pagesOf(page);
      const all = Array.from({ length: last }, (_, i) => i + 1);
      for (const n of last > 20 ? [1, last >> 1, last] : all) {
        await turnTo(page, n, last);
        for (const unfolded of [false, true]) {
          const width = await readThrough(page, unfolded);
          if (width > size.width) wrong.push(`${name} page ${n}: ${width} wide on ${size.width}${unfolded ? ', unfolded' : ''}`);
        }
      }
      await close(page).catch(error => wrong.push(`${name}: ${error.message}`));
    }
  }
  assert.deepEqual(wrong, []);
}

async function hostileTextStaysText() {
  const whole = ['prompt', 'answer', 'thinking', 'result'].flatMap(
    kind => Array.from({ length: 16 }, (_, i) => `behind ${kind} ${i}${kind === 'result' ? '.0' : ''}`));
  for (const name of [...transcripts('00000004'), ...transcripts('00000006')]) {
    const page = await visit(name);
    const title = '</title><script>window.owned=11</script>';
    assert.equal(await page.title(), title);
    assert.equal(await page.innerText('h1'), title);
    const last = await pagesOf(page);
    let text = '';
    for (let n = 1; n <= last; n++) {
      await turnTo(page, n, last);
      await page.click('#unfold');
      text += `\n${await page.innerText('main')}`;
      assert.deepEqual(await page.evaluate(strangers), [], `${name}, page ${n}`);
    }
    if (!name.includes('path2')) {
      const lines = new Set(text.split('\n').map(line => /behind \w+ [\d.]+$/.exec(line.trim())?.[0]));
      assert.deepEqual(whole.filter(words => !lines.has(words)), [], `swallowed in ${name}`);
      assert.match(text, /the very end/);
      await search(page, '<script>window.owned=7</script>', '^[1-9]\\d* messages?');
      assert.deepEqual(await page.evaluate(strangers), [], `${name}, with hits`);
    }
    await close(page);
  }
}

/** Runs in the page: all that a log must not be able to put into it. */
function strangers() {
  const found = [], main = document.querySelector('main');
  const elements = 'script, iframe, style, link, base, svg, object, embed, form, meta, h1';
  for (const e of document.querySelectorAll(`:is(main, #side) :is(${elements})`)) found.push(e.outerHTML);
  for (const e of document.querySelectorAll('*')) {
    for (const { name } of e.attributes) if (/^on/i.test(name)) found.push(e.outerHTML);
  }
  for (const a of main.querySelectorAll('a[href]')) {
    const known = ['http:', 'https:', 'mailto:', 'file:'].includes(a.protocol);
    if (!known && !a.getAttribute('href').startsWith('#')) found.push(a.outerHTML);
  }
  for (const i of document.querySelectorAll('img, video, audio, source')) {
    if (!/^data:image\/(png|jpeg|gif|webp)[;,]/.test(i.getAttribute('src'))) found.push(i.outerHTML);
  }
  if (document.querySelectorAll('#main').length !== 1) found.push('#main is not the only one');
  return found.map(html => html.slice(0, 200));
}

async function partsFold() {
  const page = await visit(one('00000002'));
  const tool = name => page.locator(`details.tool[data-tool="${name}"]`);
  const isOpen = name => tool(name).evaluate(details => details.open);
  assert.equal(await isOpen('Bash'), false);
  await tool('Bash').locator('summary').click();
  assert.equal(await isOpen('Bash'), true);
  assert.ok(await tool('Bash').getByText('3 passed').isVisible());
  await tool('Read').locator('summary').focus();
  await page.keyboard.press('Enter');
  assert.equal(await isOpen('Read'), true, 'Read opens by Enter');
  await page.keyboard.press('Enter');
  assert.equal(await isOpen('Read'), false, 'Read closes by Enter');

  await page.click('#unfold');
  assert.equal(await counts(page, 'main details:not([open])'), 0, 'all is unfolded');
  assert.ok(await page.getByText('nested words').isVisible(), 'the words of the subagent');
  assert.match(await page.innerText('.diff .del'), /two/);
  assert.match(await page.innerText('.diff .ins'), /2/);
  const look = selector => page.$eval(selector, e => getComputedStyle(e).backgroundColor);
  assert.notEqual(await look('.diff .del'), await look('.diff .ins'));
  for (const [state, words] of Object.entries({ done: 'Write the retry', doing: 'Test it', open: 'Document it' })) {
    assert.equal(await page.innerText(`.todos .${state}`), words);
  }
  const signs = await page.$$eval('.todos li', all => all.map(e => getComputedStyle(e, '::before').content));
  assert.equal(new Set(signs).size, 3, `the signs of the todos: ${signs}`);
  assert.equal(await page.$eval('.media img', async img => { img.scrollIntoView(); await img.decode(); return img.naturalWidth; }), 1);
  assert.ok(await visible(page, '.md td') > 0, 'a table');
  assert.ok(await visible(page, '#c1') && await visible(page, '#c1 ~ #m17'), 'the compaction and what came after');

  for (const what of ['tools', 'thinking']) {
    const parts = `details.${what.replace('tools', 'tool')}`;
    assert.ok(await visible(page, parts) > 0);
    await page.uncheck(`#show-${what}`);
    assert.equal(await visible(page, parts), 0, `${what} are hidden`);
    await page.check(`#show-${what}`);
    assert.ok(await visible(page, parts) > 0, `${what} are back`);
  }
  await page.click('#fold');
  assert.equal(await counts(page, 'main details[open]'), 0, 'all is folded');
  assert.ok(!await page.getByText('nested words').isVisible());
  await close(page);
}

async function searchFinds() {
  const page = await visit(one('00000003'));
  const needle = 'article:has-text("xylophone needle")';
  for (const [words, go] of [['xylophone needle', () => page.press('#find', 'Enter')], ['XYLOPHONE  Needle', () => page.click('#hits a')]]) {
    assert.equal(await counts(page, needle), 0, 'the needle is on another page');
    await search(page, words, '^1 message$');
    assert.equal(await counts(page, '#hits li'), 1);
    await go();
    await page.waitForSelector(needle);
    await onScreen(page, `#${await page.getAttribute(needle, 'id')}`, 'the hit');
    assert.ok(await page.evaluate(() => CSS.highlights.get('find')?.size === 1), 'the words are marked');
    await page.press('#find', 'Escape');
    assert.deepEqual(await page.evaluate(() => [find.value, found.textContent, hits.hidden, outline.hidden]), ['', '', true, false]);
    await turnTo(page, 1, await pagesOf(page));
  }
  await search(page, 'Answer 7.', '^1 message$');
  await search(page, 'question 70', '^2 messages$');
  await search(page, 'no such words (anywhere', '^0 messages$');
  assert.equal(await counts(page, '#hits li'), 0);
  await close(page);

  const large = await visit(one('00000005'));
  const start = Date.now();
  large.setDefaultTimeout(10_000);
  await search(large, 'accordion', '^1 message$');
  await large.press('#find', 'Enter');
  await large.waitForSelector('article:has-text("accordion")');
  assert.ok(Date.now() - start < 10_000);
  await close(large);
}

async function linksLeadThere() {
  const long = one('00000003'), varied = one('00000002');
  let page = await visit(long);
  const last = await page.locator('#outline a').last().getAttribute('href');
  await page.locator('#outline a').last().click();
  await onScreen(page, last);
  assert.ok(await counts(page, `#outline a[href="${last}"][aria-current]`), 'the outline shows where one is');
  await page.goBack();
  await onScreen(page, 'h1', 'the beginning, after going back');
  await close(page);

  for (const size of [DESKTOP, PHONE]) {
    page = await visit(long, { size, hash: '#m1399' });
    await onScreen(page, '#m1399');
    await close(page);
  }
  page = await visit(varied);
  const targets = await page.$$eval('#outline a', all => all.map(a => a.hash));
  assert.ok(targets.length >= 3);
  for (const target of targets) assert.equal(await counts(page, target), 1, `target ${target}`);
  const folded = await page.$$eval('details:not([open]) :is(h4, article)[id]', all => all.map(e => `#${e.id}`));
  assert.ok(folded.length >= 3 && folded.some(id => id.startsWith('#a')), `${folded}`);
  await close(page);
  for (const hash of folded) {
    page = await visit(varied, { hash });
    await onScreen(page, hash, `what was folded, ${hash},`);
    await close(page);
  }
}

async function branchesAreLinked() {
  const paths = transcripts('00000001');
  assert.equal(paths.length, 3);
  const states = ['abandoned', 'abandoned', 'active'];
  for (const [i, name] of paths.entries()) {
    const page = await visit(name);
    assert.equal(await page.innerText('.status .badge'), states[i]);
    assert.match(await page.innerText('.status'), new RegExp(`path ${i + 1} of 3`));
    assert.deepEqual(await page.locator('.branches li .badge').allInnerTexts(), states);
    assert.match(await page.innerText('.branches li.here'), new RegExp(`^path ${i + 1}\\b`));
    const others = paths.filter(other => other !== name);
    for (const links of ['.branches li a', '.branches svg a']) {
      assert.deepEqual(await page.$$eval(links, all => all.map(a => a.getAttribute('href'))), others);
    }
    assert.equal(await page.$eval('.branches .lane path', e => getComputedStyle(e).fill), 'none', 'lanes are lines');
    await close(page);
  }
  for (const link of ['.branches li a', '.branches svg a circle']) {
    const page = await visit(paths[2]);
    page.expected.add(urlOf(paths[0]));
    await page.locator(link).first().click();
    await page.waitForURL(urlOf(paths[0]));
    assert.match(await page.innerText('main'), /Answer to 5 original/);
    await close(page);
  }
}

async function largeOpensAtOnce() {
  const start = Date.now();
  const page = await visit(one('00000005'), { until: 'commit' });
  await onScreen(page, 'article.msg', 'the first message');
  const took = Date.now() - start;
  assert.ok(took < 3_000, `the first message was there after ${took} ms`);
  await page.waitForLoadState();
  const last = await pagesOf(page);
  assert.ok(last > 20);
  for (const n of [1, last]) {
    await turnTo(page, n, last);
    const articles = await counts(page, 'article');
    assert.ok(articles > 0 && articles < 400, `${articles} messages at once`);
  }
  await close(page);
}

async function indexLeadsToAll() {
  const page = await visit('index.html');
  const hrefs = await page.$$eval('tbody a', all => all.map(a => a.getAttribute('href')));
  assert.deepEqual([...hrefs].sort(), transcripts(''));
  const rows = () => page.$$eval('tbody tr', all => all.filter(row => row.checkVisibility()).map(row => row.querySelector('a').getAttribute('href')).sort());
  await search(page, 'OWNED=9', ' of ');
  assert.deepEqual(await rows(), [...transcripts('00000004'), ...transcripts('00000006')]);
  await search(page, 'retry fetcher', '^1 of ');
  assert.deepEqual(await rows(), transcripts('00000002'));
  await search(page, 'no such words', '^0 of ');
  assert.deepEqual(await rows(), []);
  await page.press('#find', 'Escape');
  assert.equal((await rows()).length, hrefs.length);
  await page.locator('.project').last().getByRole('button', { name: 'Turns' }).click();
  const turns = (await page.locator('.project').last().locator('td:nth-child(3)').allInnerTexts()).map(Number);
  assert.deepEqual(turns, [...turns].sort((a, b) => b - a));
  for (const name of ['index.html', ...transcripts('00000002')]) {
    const from = await visit(name);
    const to = await from.$$eval('a[href]', all => all.map(a => a.href.split('#')[0]));
    for (const url of new Set(to)) assert.ok(fs.existsSync(fileURLToPath(url)), `${name} leads to ${url}`);
    await close(from);
  }
  page.expected.add(urlOf(hrefs[0]));
  await page.click('tbody a >> nth=0');
  await page.waitForURL(urlOf(hrefs[0]));
  page.expected.add(urlOf('index.html'));
  await page.click('.crumbs a');
  await page.waitForURL(urlOf('index.html'));
  await close(page);
}

async function keysAndColours() {
  let page = await visit(one('00000003'));
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'find');
  assert.equal(await page.inputValue('#find'), '');
  await page.evaluate(() => document.activeElement.blur());
  for (const [key, id] of [['j', '#m1'], ['j', '#m3'], ['j', '#m5'], ['k', '#m3']]) {
    await page.keyboard.press(key);
    await becomes(page, `${key} leads to ${id}`, id => location.hash === id, id);
    await onScreen(page, id);
  }
  const last = await pagesOf(page);
  for (const [key, n] of [[']', 2], [']', 3], ['[', 2]]) {
    await page.keyboard.press(key);
    await becomes(page, `${key} shows page ${n}`, said => document.querySelector('.pager').textContent.includes(said), `page ${n} of ${last}`);
  }
  await page.locator('.pager a').last().click();
  await page.waitForSelector('article:has-text("xylophone")');
  await close(page);

  for (const name of [one('00000002'), 'index.html']) {
    page = await visit(name);
    const light = await background(page);
    for (let i = 0; i < 2; i++) await page.click('#theme');
    assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
    const dark = await background(page);
    assert.notEqual(dark, light, 'the dark background');
    page.expected.add(urlOf(name));
    await page.reload();
    assert.equal(await background(page), dark, 'the theme is kept');
    await close(page);
    page = await visit(name, { dark: true });
    assert.equal(await background(page), dark, 'a dark system');
    await close(page);
  }
}

async function drawerOnThePhone() {
  const page = await visit(one('00000003'), { size: PHONE });
  const isOut = () => page.$eval('#side', e => e.checkVisibility({ visibilityProperty: true }) && e.getBoundingClientRect().right > 200);
  const settles = out => becomes(page, out ? 'the drawer opens' : 'the drawer closes', out => {
    const { left, right } = document.getElementById('side').getBoundingClientRect();
    return out ? left === 0 : right <= 0;
  }, out);
  assert.equal(await isOut(), false);
  for (const shut of [() => page.click('#menu'), () => page.keyboard.press('Escape'), () => page.touchscreen.tap(380, 600)]) {
    await page.click('#menu');
    await settles(true);
    assert.ok(await page.isVisible('#unfold') && await page.isVisible('#find'));
    await shut();
    await settles(false);
  }
  await page.click('#menu');
  await settles(true);
  await page.click('#outline a[href="#m1399"]');
  await settles(false);
  await onScreen(page, '#m1399');
  await close(page);
}

async function takeScreenshots() {
  fs.mkdirSync(SCREENSHOTS, { recursive: true });
  const views = {
    branches: { name: transcripts('00000001')[2] },
    everything: { name: one('00000002') },
    unfolded: { name: one('00000002'), unfold: true },
    hostile: { name: one('00000004') },
    search: { name: one('00000003'), words: 'question 70' },
    index: { name: 'index.html' },
  };
  for (const [view, { name, unfold, words }] of Object.entries(views)) {
    for (const [device, size] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
      for (const dark of [false, true]) {
        const page = await visit(name, { size, dark });
        if (size === PHONE && words) await page.click('#menu');
        if (words) await search(page, words, 'messages');
        if (unfold) await readThrough(page, true);
        await page.evaluate(() => scrollTo(0, 0));
        await page.waitForTimeout(words ? 250 : 0);
        const file = path.join(SCREENSHOTS, `${view}-${device}-${dark ? 'dark' : 'light'}.png`);
        await page.screenshot({ path: file, fullPage: unfold });
        await close(page);
      }
    }
  }
}

const CHECKS = [
  everyFileIsQuiet, hostileTextStaysText, partsFold, searchFinds, linksLeadThere, branchesAreLinked,
  largeOpensAtOnce, indexLeadsToAll, keysAndColours, drawerOnThePhone, takeScreenshots,
];

setTimeout(() => {
  console.log(`FAILED: not done after ${WHOLE_RUN / 1000} s`);
  process.exit(1);
}, WHOLE_RUN).unref();

let failed = 0;
const only = process.argv[2];
browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: ['--no-sandbox', '--disable-gpu'] });
for (const check of CHECKS.filter(check => !only || check.name === only)) {
  const start = Date.now();
  let error = await check().then(() => null, error => error);
  const faults = new Set(open.flatMap(page => [...page.faults]));
  await Promise.all(open.map(page => page.context().close().catch(() => {})));
  open = [];
  const took = `${((Date.now() - start) / 1000).toFixed(1)} s`;
  console.log(`${error ? 'FAILED' : 'ok    '} ${check.name} (${took})`);
  if (error) {
    failed += 1;
    const line = /test\.mjs:(\d+)/.exec(error.stack.split('\n').filter(line => /^\s+at .*test\.mjs/.test(line)).at(-1))?.[1];
    console.log(`       line ${line}: ${error.message}`.replaceAll('\n', '\n       '));
    for (const fault of faults) console.log(`       ${fault}`);
  }
}
await browser.close();
console.log(failed ? `${failed} of the checks failed` : 'The pages are as they should be.');
process.exit(failed ? 1 : 0);

// Opens exported transcripts in a browser and checks what a reader would see and do.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const { CHROMIUM, PLAYWRIGHT, PAGES, SCREENSHOTS } = process.env;
const { chromium } = (await import(PLAYWRIGHT)).default;

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
// Ends checks that hang; not a measure of speed.
const WAIT = 30_000;

const HTML = fs.readdirSync(PAGES, { recursive: true }).filter(name => name.endsWith('.html')).sort();
const transcripts = part => HTML.filter(name => !name.includes('/') && name !== 'index.html' && name.includes(part));
const urlOf = name => pathToFileURL(path.join(PAGES, name)).href;
const [VARIED, LONG, HOSTILE, LARGE] = ['00000002', '00000003', '00000004', '00000005'].map(part => transcripts(part)[0]);
const PATHS = transcripts('00000001'), BROKEN = transcripts('00000006'), MARKED = transcripts('00000007')[0];

// If no browser starts, the exit code differs from that of a failed check.
const browser = await chromium.launch({
  executablePath: CHROMIUM, headless: true, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
}).catch(error => { console.log(`${error}`.slice(0, 2000)); process.exit(77); });
const visits = new Set();

/** Opens a file in a profile of its own. Errors, dialogs, popups and unexpected requests are recorded in `faults`. */
async function visit(name, { size = DESKTOP, hash = '', dark = false, until = 'load' } = {}) {
  const touch = size === PHONE, colorScheme = dark ? 'dark' : 'light';
  const context = await browser.newContext({ viewport: size, isMobile: touch, hasTouch: touch, colorScheme });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  page.setDefaultNavigationTimeout(3 * WAIT);
  Object.assign(page, { faults: new Set(), expected: new Set([urlOf(name)]) });
  const fault = text => page.faults.add(`${name}: ${text.slice(0, 300)}`);
  page.on('pageerror', error => fault(`uncaught ${error}`));
  page.on('console', message => ['error', 'warning'].includes(message.type()) && fault(`console: ${message.text()}`));
  page.on('dialog', dialog => { fault(`dialog: ${dialog.message()}`); dialog.dismiss().catch(() => {}); });
  page.on('popup', popup => fault(`popup: ${popup.url()}`));
  page.on('request', request => {
    const url = request.url().split('#')[0];
    if (!url.startsWith('data:') && !page.expected.delete(url)) fault(`request: ${url.slice(0, 200)}`);
  });
  visits.add(page);
  await page.goto(urlOf(name) + hash, { waitUntil: until });
  return page;
}

/** Closes a page. Returns its faults. */
async function closePage(page) {
  visits.delete(page);
  const owned = await page.evaluate(() => window.owned).catch(error => `unknown: ${error}`);
  if (owned !== undefined) page.faults.add(`${page.url()}: a script of the log ran: ${owned}`);
  await page.context().close();
  return [...page.faults];
}

/** Waits until a test that runs in the page succeeds. */
const waitUntil = (page, condition, test, arg) =>
  page.waitForFunction(test, arg).catch(() => assert.fail(`timed out waiting until ${condition}`));

/** Waits until the element that a selector finds is visible and not covered. */
const onScreen = (page, selector) => waitUntil(page, `${selector} is on the screen`, selector => {
  const found = document.querySelector(selector), box = found?.getBoundingClientRect();
  if (!box?.height || box.top < -1 || box.top > innerHeight - 10) return false;
  return found.contains(document.elementFromPoint(box.left + Math.min(box.width, 20) / 2, box.top + Math.min(box.height, 16) / 2));
}, selector);
const waitForPage = (page, n, last) => waitUntil(page, `page ${n} is shown`,
  text => document.querySelector('.pager').textContent.includes(text), `page ${n} of ${last}`);
const pagesOf = page => page.evaluate(() => document.querySelectorAll('script.chunk').length + 1);
const count = (page, selector) => page.locator(selector).count();
const visible = (page, selector) => page.$$eval(selector, all => all.filter(e => e.checkVisibility()).length);
const background = (page, selector = 'body') => page.$eval(selector, e => getComputedStyle(e).backgroundColor);
const hrefs = (page, selector) => page.$$eval(selector, all => all.map(a => a.getAttribute('href')));
async function goToPage(page, n, last) {
  await page.evaluate(n => { location.hash = 'p' + n; }, n);
  if (last > 1) await waitForPage(page, n, last);
}
async function search(page, words, answer) {
  await page.fill('#find', words);
  await waitUntil(page, `a search for "${words}" reports ${answer}`,
    answer => new RegExp(answer).test(document.getElementById('found').textContent), answer);
}
async function follow(page, selector, name) {
  page.expected.add(urlOf(name));
  await page.locator(selector).first().click();
  await page.waitForURL(urlOf(name));
}

/** Folds or unfolds everything and scrolls through the page. Returns the width of the page. */
const scrollThrough = (page, unfolded) => page.evaluate(async unfolded => {
  document.getElementById(unfolded ? 'unfold' : 'fold')?.click();
  for (const part of document.querySelectorAll('details')) part.open = unfolded;
  const root = document.scrollingElement, step = Math.max(innerHeight, root.scrollHeight / 4);
  for (let y = 0; y < root.scrollHeight; y += step) {
    scrollTo(0, y);
    await new Promise(requestAnimationFrame);
  }
  scrollTo(0, 0);
  return root.scrollWidth;
}, unfolded);

async function largeSessionIsShownBeforeItIsLoaded() {
  const page = await visit(LARGE, { until: 'commit' });
  await onScreen(page, 'article.msg');
  const took = await page.evaluate(() => performance.now());
  console.log(`       the first of ${(fs.statSync(path.join(PAGES, LARGE)).size / 1e6).toFixed()} MB was shown after ${took.toFixed()} ms`);
  await page.waitForLoadState();
  const last = await pagesOf(page);
  await goToPage(page, last, last);
  const articles = await count(page, 'article');
  assert.ok(articles > 0 && articles < 400, `${articles} messages at once`);
}

async function everyPageFitsAndReportsNoErrors() {
  const faults = [], rest = [LARGE, LONG, ...HTML.filter(name => name !== LARGE && name !== LONG)];
  const checkFile = async name => {
    const page = await visit(name, { size: PHONE }), last = await pagesOf(page);
    for (const n of last > 20 ? [1, last >> 1, last] : Array.from({ length: last }, (_, i) => i + 1)) {
      await goToPage(page, n, last);
      for (const [size, unfolded] of [[PHONE, false], [PHONE, true], [DESKTOP, true]]) {
        await page.setViewportSize(size);
        const width = await scrollThrough(page, unfolded);
        if (width > size.width) faults.push(`${name} page ${n}: ${width} wide on ${size.width}${unfolded ? ', unfolded' : ''}`);
      }
    }
    faults.push(...await closePage(page));
  };
  const worker = async () => { while (rest.length) await checkFile(rest.shift()); };
  await Promise.all([worker(), worker(), worker()]);
  assert.deepEqual(faults, []);
}

/** Runs in the page: finds elements that a log must not be able to create, and table cells that overflow. */
function unexpectedElements() {
  const all = (selector, test = () => true) => [...document.querySelectorAll(selector)].filter(test);
  return [
    ...all(':is(main, #side) :is(script, iframe, style, link, base, svg, object, embed, form, meta, h1, #main)'),
    ...all('*', e => [...e.attributes].some(({ name }) => /^on/i.test(name))),
    ...all(':is(main, #side) a[href]', a => !['http:', 'https:', 'mailto:', 'file:'].includes(a.protocol)),
    ...all('img, video, audio, source', e => !/^data:image\/(png|jpeg|gif|webp)[;,]/.test(e.getAttribute('src'))),
    ...all('#main', e => e.localName !== 'main'),
    ...all('td, th', e => e.scrollWidth > e.clientWidth + 1),
  ].map(e => e.outerHTML.slice(0, 200));
}

async function hostileTextIsNotInterpreted() {
  const title = '</title><script>window.owned=11</script>';
  const expected = ['prompt #', 'answer #', 'thinking #', 'result #.0']
    .flatMap(kind => Array.from({ length: 19 }, (_, i) => `behind ${kind.replace('#', i)}`));
  for (const name of [HOSTILE, ...BROKEN, MARKED]) {
    const page = await visit(name), last = await pagesOf(page), lines = new Set();
    if (name !== MARKED) assert.deepEqual([await page.title(), await page.innerText('h1')], [title, title]);
    for (let n = 1; n <= last; n++) {
      await goToPage(page, n, last);
      await page.click('#unfold');
      for (const line of (await page.innerText('main')).split('\n')) lines.add(/(behind \w+ [\d.]+)?$/.exec(line.trim())[0]);
      assert.deepEqual(await page.evaluate(unexpectedElements), [], `${name}, page ${n}`);
    }
    if (name === BROKEN[1] || name === MARKED) continue;
    assert.deepEqual(expected.filter(words => !lines.has(words)), [], `text is missing in ${name}`);
    await search(page, '<script>window.owned=7</script>', '^[1-9]\\d* message');
    assert.deepEqual(await page.evaluate(unexpectedElements), [], `${name}, with hits`);
  }
}

async function partsCanBeFolded() {
  const page = await visit(VARIED);
  assert.ok(await page.getByText('3 passed').isHidden(), 'a tool is folded');
  await page.click('[data-tool=Bash] > summary');
  assert.ok(await page.getByText('3 passed').isVisible(), 'a click opens a tool');
  for (const open of [true, false]) {
    await page.press('[data-tool=Read] > summary', 'Enter');
    assert.equal(await count(page, '[data-tool=Read][open]'), +open, 'Enter toggles a tool');
  }
  await page.click('#unfold');
  assert.equal(await count(page, 'main details:not([open])'), 0, 'everything is unfolded');
  assert.ok(await page.locator('.subagent').getByText('nested words').isVisible(), 'the subagent can be read');
  for (const [box, parts] of [['#show-tools', '.tool'], ['#show-thinking', '.thinking']]) {
    await page.uncheck(box);
    assert.equal(await visible(page, parts), 0, `${parts} is hidden`);
    await page.check(box);
    assert.ok(await visible(page, parts) > 0, `${parts} is visible again`);
  }
  await page.click('#fold');
  assert.equal(await count(page, 'main details[open]'), 0, 'everything is folded');
}

async function partsAreRendered() {
  const page = await visit(VARIED);
  await page.click('#unfold');
  assert.deepEqual(await page.locator('.diff :is(.del, .ins)').allInnerTexts(), ['-two', '+2']);
  assert.notEqual(await background(page, '.diff .del'), await background(page, '.diff .ins'));
  const todos = await page.$$eval('.todos li', all => all.map(e => [getComputedStyle(e, '::before').content, e.innerText]));
  assert.deepEqual(todos, [['"✓"', 'Write the retry'], ['"◐"', 'Test it'], ['"○"', 'Document it']]);
  await page.locator('.media img').scrollIntoViewIfNeeded();
  await waitUntil(page, 'the image is shown', () => document.querySelector('.media img').naturalWidth === 1);
  for (const part of ['.md td', '#m2 pre .hk', '#c1', '#c1 ~ #m17']) assert.ok(await visible(page, part) > 0, part);
}

async function searchFindsMessagesOnOtherPages() {
  const page = await visit(LONG), last = await pagesOf(page);
  const needle = 'article:has-text("xylophone needle")';
  const actions = { 'xylophone needle': () => page.press('#find', 'Enter'), 'XYLOPHONE  Needle': () => page.click('#hits a') };
  for (const [words, go] of Object.entries(actions)) {
    assert.equal(await count(page, needle), 0, 'the needle is on another page');
    await search(page, words, '^1 message$');
    await go();
    await onScreen(page, `#${await page.locator(needle).getAttribute('id')}`);
    await waitForPage(page, last, last);
    assert.equal(await page.evaluate(() => CSS.highlights.get('find')?.size), 1, 'the words are marked');
    await page.press('#find', 'Escape');
    assert.deepEqual([await page.inputValue('#find'), await page.textContent('#found')], ['', ''], 'Escape clears');
    assert.ok(await page.isHidden('#hits') && await page.isVisible('#outline'));
    await goToPage(page, 1, last);
  }
  await search(page, 'Answer 7.', '^1 message$');
  await search(page, 'no such words (anywhere', '^0 messages$');
  const large = await visit(LARGE);
  large.setDefaultTimeout(2 * WAIT);
  await search(large, 'accordion', '^1 message$');
  await large.press('#find', 'Enter');
  await large.waitForSelector('article:has-text("accordion")');
}

async function linksScrollToTheirTarget() {
  const page = await visit(LONG);
  const last = (await hrefs(page, '#outline a')).at(-1);
  await page.locator('#outline a').last().click();
  await onScreen(page, last);
  await page.waitForSelector(`#outline a[href="${last}"][aria-current]`);
  await page.goBack();
  await onScreen(page, 'h1');
  for (const size of [DESKTOP, PHONE]) await onScreen(await visit(LONG, { size, hash: '#m1399' }), '#m1399');
  const varied = await visit(VARIED), targets = await hrefs(varied, '#outline a');
  for (const target of targets) assert.equal(await count(varied, target), 1, `target ${target} of ${targets}`);
  for (const inside of ['h4[id]', '.subagent article']) {
    const hash = await varied.$eval(`details:not([open]) ${inside}`, e => `#${e.id}`);
    assert.equal(await visible(varied, hash), 0);
    await onScreen(await visit(VARIED, { hash }), hash);
  }
}

async function branchesAreLinked() {
  const states = ['abandoned', 'abandoned', 'active'];
  for (const [i, name] of PATHS.entries()) {
    const page = await visit(name);
    assert.equal(await page.innerText('.status'), `${states[i]} path ${i + 1} of 3`);
    assert.deepEqual(await page.locator('.branches li .badge').allInnerTexts(), states);
    assert.match(await page.innerText('.branches li.here'), new RegExp(`^path ${i + 1}\\b`));
    for (const links of ['.branches li a', '.branches svg a']) {
      assert.deepEqual(await hrefs(page, links), PATHS.filter(other => other !== name));
    }
    assert.equal(await page.$eval('.branches .lane path', e => getComputedStyle(e).fill), 'none', 'a lane is a line');
  }
  const page = await visit(PATHS[2]);
  await follow(page, '.branches li a', PATHS[0]);
  assert.match(await page.innerText('main'), /Answer to 5 original/);
}

async function indexListsAllTranscripts() {
  const page = await visit('index.html');
  const rows = async () => (await hrefs(page, 'tbody tr:not([hidden]) a')).sort();
  assert.deepEqual(await rows(), transcripts(''));
  for (const [words, names] of [['OWNED=9', [HOSTILE, ...BROKEN, MARKED]], ['retry fetcher', [VARIED]], ['no such words', []]]) {
    await search(page, words, `^${names.length} of `);
    assert.deepEqual(await rows(), names.toSorted());
    assert.equal(await visible(page, 'tbody tr'), names.length);
  }
  await page.press('#find', 'Escape');
  await follow(page, `a[href="${VARIED}"]`, VARIED);
  const linked = await page.$$eval('a[href]', all => all.map(a => a.href.split('#')[0]));
  for (const url of new Set(linked)) assert.ok(fs.existsSync(fileURLToPath(url)), `${url} exists`);
  await follow(page, '.crumbs a', 'index.html');
}

async function projectsAreListedAndFiltered() {
  const projects = ['app', 'app"onload="x'];
  for (const size of [DESKTOP, PHONE]) {
    const page = await visit('index.html', { size });
    if (size === PHONE) {
      assert.equal(await visible(page, '#projects li'), 0, 'the list is folded on a phone');
      await page.click('#projects summary');
    }
    const names = async () => (await page.$$eval('#projects li', all => all.filter(e => e.checkVisibility()).map(e => e.innerText.split(/\s+/)[0]))).sort();
    assert.deepEqual(await names(), projects);
    await page.click('.project:has(tr:has-text("retry")) > summary');
    assert.equal(await visible(page, `a[href="${VARIED}"]`), 0, 'a click folds a project');
    await page.keyboard.press('/');
    await page.keyboard.type('retry fetcher');
    await waitUntil(page, 'one row is left', () => document.getElementById('found').textContent.startsWith('1 of '));
    assert.deepEqual(await names(), ['app'], 'projects without a match are not listed');
    assert.equal(await visible(page, `a[href="${VARIED}"]`), 1, 'a match is unfolded');
    await search(page, '2026-01', `^${transcripts('').length} of `);
  }
}

async function headIsFoldedOnPhones() {
  const page = await visit(VARIED, { size: PHONE });
  assert.ok(await page.isVisible('.about > summary') && await visible(page, '.facts') === 0, 'the details are folded');
  assert.ok(await page.$eval('.head', e => e.getBoundingClientRect().height) < 200, 'the head is compact');
  await page.click('.about > summary');
  assert.ok(await visible(page, '.facts') === 1, 'a click shows the details');
  const desktop = await visit(VARIED);
  assert.ok(await visible(desktop, '.facts') === 1 && await desktop.isHidden('.about > summary'), 'a large screen shows them');
  assert.equal(await count(desktop, '.head .badge'), 0, 'a single path has no status');
  assert.match(await desktop.innerText('#resume'), /claude --resume 00000002-/);
  await desktop.click('.resume .copy');
  await waitUntil(desktop, 'the command is copied', () => document.querySelector('.resume .copy').dataset.said);
  assert.equal(await count(await visit(PATHS[0]), '#resume'), 0, 'an abandoned path cannot be resumed');
}

async function keysMoveBetweenMessagesAndPages() {
  const page = await visit(LONG), last = await pagesOf(page);
  await page.keyboard.press('/');
  assert.ok(await page.$eval('#find', e => e === document.activeElement && e.value === ''), '/ focuses the search');
  await page.locator('#find').blur();
  for (const [key, id] of [['j', '#m1'], ['j', '#m3'], ['j', '#m5'], ['k', '#m3']]) {
    await page.keyboard.press(key);
    await waitUntil(page, `${key} moves to ${id}`, id => location.hash === id, id);
    await onScreen(page, id);
  }
  // Three presses in one task, so before any observer of the page reports.
  const presses = (...keys) => page.evaluate(keys => {
    for (const key of keys) document.dispatchEvent(new KeyboardEvent('keydown', { key }));
    return location.hash;
  }, keys);
  assert.equal(await presses('j', 'j', 'j'), '#m9', 'every press counts');
  assert.equal(await presses('k', 'j', 'k'), '#m7', 'every press counts');
  for (const [key, n] of [[']', 2], [']', 3], ['[', 2]]) {
    await page.keyboard.press(key);
    await waitForPage(page, n, last);
  }
}

async function themeCanBeChanged() {
  for (const name of [VARIED, 'index.html']) {
    const page = await visit(name), light = await background(page);
    await page.click('#theme', { clickCount: 2 });
    const dark = await background(page);
    assert.notEqual(dark, light, 'the dark theme has another background');
    page.expected.add(urlOf(name));
    await page.reload();
    assert.equal(await background(page), dark, 'the theme is remembered');
    assert.equal(await background(await visit(name, { dark: true })), dark, 'the theme of the system is used');
  }
}

async function drawerOpensOnPhones() {
  const page = await visit(LONG, { size: PHONE });
  const waitForDrawer = open => waitUntil(page, `the drawer is ${open ? 'open' : 'closed'}`, open => {
    const { left, right } = document.getElementById('side').getBoundingClientRect();
    return open ? left === 0 : right <= 0;
  }, open);
  const actions = [() => page.click('#menu'), () => page.keyboard.press('Escape'), () => page.touchscreen.tap(380, 600)];
  for (const close of [...actions, () => page.click('#outline a[href="#m1399"]')]) {
    await waitForDrawer(false);
    await page.click('#menu');
    await waitForDrawer(true);
    await onScreen(page, '#find');
    await close();
  }
  await waitForDrawer(false);
  await onScreen(page, '#m1399');
}

async function screenshotsAreTaken() {
  fs.mkdirSync(SCREENSHOTS, { recursive: true });
  const views = { branches: PATHS[2], unfolded: VARIED, hostile: HOSTILE, search: LONG, index: 'index.html' };
  for (const [view, name] of Object.entries(views)) {
    for (const [device, size] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
      const page = await visit(name, { size });
      if (view === 'search' && size === PHONE) await page.click('#menu');
      if (view === 'search') await search(page, 'question 70', '^2 messages$');
      if (view === 'unfolded') await scrollThrough(page, true);
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        await page.screenshot({ path: path.join(SCREENSHOTS, `${view}-${device}-${colorScheme}.png`), fullPage: view === 'unfolded', animations: 'disabled' });
      }
    }
  }
}

setTimeout(() => process.exit(console.log('FAILED: not finished after ten minutes') ?? 1), 600_000).unref();
let failed = 0;
for (const check of [
  largeSessionIsShownBeforeItIsLoaded, everyPageFitsAndReportsNoErrors, hostileTextIsNotInterpreted, partsCanBeFolded,
  partsAreRendered, searchFindsMessagesOnOtherPages, linksScrollToTheirTarget, branchesAreLinked,
  indexListsAllTranscripts, projectsAreListedAndFiltered, headIsFoldedOnPhones, keysMoveBetweenMessagesAndPages, themeCanBeChanged, drawerOpensOnPhones, screenshotsAreTaken,
]) {
  const start = Date.now();
  const failures = await check().then(() => [], error => [error.stack.replace(/\n +at (?!.*test\.mjs).*/g, '')]);
  failures.push(...(await Promise.all([...visits].map(closePage))).flat());
  failed += failures.length > 0;
  console.log(`${failures.length ? 'FAILED' : 'ok    '} ${check.name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  for (const failure of failures) console.log(failure.replace(/^/gm, '       '));
}
await browser.close();
process.exit(failed && 1);

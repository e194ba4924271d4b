import { Readable } from "node:stream";
import { text as readText } from "node:stream/consumers";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { createLinkRewriter } from "./html-links.ts";

const rewritten = (chunks: readonly Uint8Array[]): Promise<string> =>
  readText(Readable.from(chunks).pipe(createLinkRewriter((link) => `[${link}]`)));
const rewrite = (html: string): Promise<string> => rewritten([Buffer.from(html)]);

describe("rewriting links in HTML", () => {
  it.each([
    ['<a href="/x">test</a>', '<a href="[/x]">test</a>'],
    ["<A class=b HREF = '/x'>", "<A class=b HREF = '[/x]'>"],
    ["<img src=/x/><p href=/y>", "<img src=[/x/]><p href=/y>"],
    ["<a title='>' href=\"it's\">", "<a title='>' href=\"[it's]\">"],
    ["<form action=/a method=post><button formaction='/b'/>", "<form action=[/a] method=post><button formaction='[/b]'/>"],
    ['<script src="/a">"<a href=/b>"</script><a href=/c>', '<script src="[/a]">"<a href=/b>"</script><a href=[/c]>'],
    ["<title><a href=/a></titles></TITLE ><a href=/b>", "<title><a href=/a></titles></TITLE ><a href=[/b]>"],
    ["<!-- <a href=/a> --><!--><a href=/b>", "<!-- <a href=/a> --><!--><a href=[/b]>"],
    ["<!doctype html><?x <a href=/a?><a href=/b>", "<!doctype html><?x <a href=/a?><a href=[/b]>"],
    ["1 < 2 <3 <a href=/a>é</a>", "1 < 2 <3 <a href=[/a]>é</a>"],
    ["<plaintext><a href=/a></plaintext><a href=/a>", "<plaintext><a href=/a></plaintext><a href=/a>"],
    ["<a href='/a", "<a href='/a"],
    ["<a href=>", "<a href=[]>"],
    ["", ""],
  ])("finds those of %j", async (html, expected) => {
    expect(await rewrite(html)).toBe(expected);
  });

  it("does not depend on how the document is cut", async () => {
    const part = fc.constantFrom(
      ...[
        "<a href=/x>",
        "<a href='",
        "'>",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "<title ",
        "</title>",
        "<",
        ">",
        "é",
        "text",
      ],
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part), fc.array(fc.nat(80)), async (parts, cuts) => {
        const whole = Buffer.from(parts.join(""));
        const marks = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).toSorted((a, b) => a - b), whole.length];
        const chunks = marks.slice(1).map((end, index) => whole.subarray(marks[index], end));
        expect(await rewritten(chunks)).toBe(await rewritten([whole]));
      }),
    );
  });

  it("passes on a tag that does not end, without waiting for the end of the document", async () => {
    const scanner = createLinkRewriter((link) => `[${link}]`);
    scanner.write(Buffer.from(`<a href="${"x".repeat(70_000)}`));
    scanner.write(Buffer.from("<a href=/b>"));
    expect(String(scanner.read())).toContain('<a href="xxx');
    scanner.end();
  });

  it("passes on the rest of a long tag, and finds the links after it", async () => {
    const long = `<script title="${"<a href=/x>".repeat(7_000)}" src=/y>`;
    expect(await rewrite(`${long}<a href=/a></script><a href=/b>`)).toBe(`${long}<a href=/a></script><a href=[/b]>`);
    const chunks = [long.slice(0, 40_000), `${long.slice(40_000)}</script>`, "<a href=/b>"].map((chunk) => Buffer.from(chunk));
    expect(await rewritten(chunks)).toBe(`${long}</script><a href=[/b]>`);
  });

  it("passes on a tag that the document does not end", async () => {
    expect(await rewrite("<a href=/a><a <a href='/b'")).toBe("<a href=[/a]><a <a href='/b'");
  });

  it.each(["<a ", '<b x="', "<b x='", "<a href=/", "<a", "<!--", "</a", "<title>", "<", "<a href=/x>", '"', "<a href= "])(
    "reads each character of a document of %j a bounded number of times",
    async (part) => {
      const text = part.repeat(Math.ceil(6_000 / part.length));
      const cut = Array.from({ length: Math.ceil(text.length / 50) }, (_, index) => text.slice(index * 50, index * 50 + 50));
      for (const chunks of [[text], cut]) {
        const read = await countRead(chunks.map((chunk) => Buffer.from(chunk)));
        expect(read).toBeLessThan(20 * text.length);
      }
    },
  );
});

/** The number of characters that searches read while a document is rewritten. */
async function countRead(chunks: readonly Uint8Array[]): Promise<number> {
  const exec = RegExp.prototype.exec;
  let read = 0;
  const spy = vi.spyOn(RegExp.prototype, "exec").mockImplementation(function (this: RegExp, text) {
    const from = this.lastIndex;
    const match = exec.call(this, text);
    read += 1 + (match?.index ?? text.length) - from;
    return match;
  });
  try {
    await rewritten(chunks);
  } finally {
    spy.mockRestore();
  }
  return read;
}

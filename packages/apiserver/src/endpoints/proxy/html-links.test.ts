import { Readable } from "node:stream";
import { text as readText } from "node:stream/consumers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
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
});

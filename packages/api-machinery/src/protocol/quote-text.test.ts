import { expect, it } from "vitest";
import { quoteText } from "./quote-text.ts";

it.each([
  ['a "b" \\ c', '"a \\"b\\" \\\\ c"'],
  ["\u0000\u0007\b\f\n\r\t\v\u001b\u007f", '"\\x00\\a\\b\\f\\n\\r\\t\\v\\x1b\\x7f"'],
  ["é 世界 <&>", '"é 世界 <&>"'],
  ["\u00a0\u2028\u{e0001}", '"\\u00a0\\u2028\\U000e0001"'],
  ["\ud800", '"\ufffd"'],
])("quotes %j like Go", (text, quoted) => {
  expect(quoteText(text)).toBe(quoted);
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { labelledLine, parseLabelledLine, RankLines } from "./rank-lines.ts";

const linesOf = (...chunks: string[]) => {
  const lines = new RankLines();
  return [...chunks.flatMap((chunk) => lines.push(chunk)), ...lines.end()].map(labelledLine);
};

describe("RankLines", () => {
  it("restores lines whose pieces mix, of Open MPI and MPICH", () => {
    expect(linesOf("[1,0]<stdout>:part [1,1]<stdout>:part [1,0]<stdout>:zero\n", "[1,1]<stdout>:one\n")).toEqual([
      "[0] part zero\n",
      "[1] part one\n",
    ]);
    expect(linesOf("\u001ekmpi:0\u001fpart \u001ekmpi:1\u001fpart one\n\u001ekmpi:0\u001fzero\n")).toEqual([
      "[1] part one\n",
      "[0] part zero\n",
    ]);
  });

  it("keeps lines of mpiexec, and unfinished lines at the end", () => {
    expect(linesOf("mpiexec failed\n[1,2]<stderr>:no newline")).toEqual(["mpiexec failed\n", "[2] no newline\n"]);
  });

  it("splits lines that are too long", () => {
    expect(linesOf(`[1,0]<stdout>:${"x".repeat(70_000)}`, "y\n").map(({ length }) => length)).toEqual([70_005, 6]);
  });

  it("finds the same lines however the output is cut", () => {
    const piece = fc.tuple(fc.nat(3), fc.constantFrom("a", "[1", "b\n", "\n", "[x]<", "c d\n"));
    const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 });
    fc.assert(
      fc.property(fc.array(piece), cuts, fc.boolean(), (pieces, sizes, isMpich) => {
        const marked = pieces
          .map(([rank, text]) => (isMpich ? `\u001ekmpi:${rank}\u001f` : `[1,${rank}]<stdout>:`) + text)
          .join("");
        const chunks: string[] = [];
        for (let start = 0, index = 0; start < marked.length; index += 1) {
          const size = sizes[index % sizes.length] ?? 1;
          chunks.push(marked.slice(start, start + size));
          start += size;
        }
        expect(linesOf(...chunks)).toEqual(linesOf(marked));
      }),
    );
  });

  it("parses labels", () => {
    expect(parseLabelledLine("[12] a [3] b")).toEqual({ rank: 12, text: "a [3] b" });
    expect(parseLabelledLine("[x] a")).toEqual({ rank: undefined, text: "[x] a" });
  });
});

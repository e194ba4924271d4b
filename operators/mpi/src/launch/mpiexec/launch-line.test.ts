import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MpiError } from "../mpi-error.ts";
import { launchWords } from "./launch-line.ts";

describe("launchWords", () => {
  it("splits the line of Open MPI 4.1, which quotes values", () => {
    expect(
      launchWords(' orted -mca orte_leave_session_attached "1" -mca orte_hnp_uri "55640064.0;tcp://127.0.0.1:45885"'),
    ).toEqual([
      "orted",
      "-mca",
      "orte_leave_session_attached",
      "1",
      "-mca",
      "orte_hnp_uri",
      "55640064.0;tcp://127.0.0.1:45885",
    ]);
  });

  it("splits the line of Open MPI for an account with the shell sh, without its profile", () => {
    const line = '( test ! -r ./.profile || . ./.profile;  orted -mca ess "env" )';
    expect(launchWords(line)).toEqual(["orted", "-mca", "ess", "env"]);
    expect(() => launchWords("( test ! -r ./.profile || . ./.profile; orted; rm -rf / )")).toThrow(MpiError);
  });

  it("splits the line of MPICH 4.0, which quotes the program", () => {
    expect(launchWords('"/usr/bin/hydra_pmi_proxy" --control-port 127.0.0.1:39821 --usize -2 --proxy-id 1')).toEqual([
      "/usr/bin/hydra_pmi_proxy",
      "--control-port",
      "127.0.0.1:39821",
      "--usize",
      "-2",
      "--proxy-id",
      "1",
    ]);
  });

  it.each([
    ["a second command", "orted; rm -rf /"],
    ["a pipe", "orted | tee log"],
    ["the background", "orted &"],
    ["a variable", "orted $HOME"],
    ["a variable in quotes", 'orted "$HOME"'],
    ["a command within", "orted `id`"],
    ["a command within quotes", 'orted "`id`"'],
    ["a redirection", "orted > /etc/passwd"],
    ["a pattern", "orted *"],
    ["a home", "~/orted"],
    ["a line break", "orted\nid"],
    ["a quote left open", "orted 'x"],
    ["a backslash at its end", "orted \\"],
    ["a variable that is set first, as --prefix of Open MPI has it", "PATH=/opt/bin /opt/bin/orted"],
    ["nothing", "  "],
    ["an empty program", '"" x'],
  ])("refuses %s", (_, line) => {
    expect(() => launchWords(line)).toThrow(MpiError);
  });

  it("returns any words that were quoted for sh", () => {
    const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;
    const words = fc.tuple(
      fc.stringMatching(/^[a-z/]+$/),
      fc.array(
        fc.string().filter((word) => !word.includes("\0")),
        { maxLength: 6 },
      ),
    );
    fc.assert(
      fc.property(words, ([program, rest]) => {
        expect(launchWords([program, ...rest].map(quoted).join(" "))).toEqual([program, ...rest]);
      }),
    );
  });
});

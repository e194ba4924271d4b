import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseControlData } from "./control-data.ts";
import { upgradeProblem } from "./tool-problem.ts";

describe("the control data", () => {
  const text = `pg_control version number:            1300
Database cluster state:               shut down
Latest checkpoint location:           1/5B43E30
Latest checkpoint's REDO location:    1/5B43E30
Latest checkpoint's REDO WAL file:    000000030000000100000005
Latest checkpoint's TimeLineID:       3
Data page checksum version:           1
`;

  it("is parsed", () => {
    expect(parseControlData(text)).toEqual({
      ...{ isShutDown: true, hasChecksums: true, timeline: 3 },
      ...{ segment: "000000030000000100000005", position: 2 ** 32 + 0x5b43e30 },
    });
  });

  it.each(["shut down in recovery", "in production", "in archive recovery"])(
    "is not that of a clean shutdown if it is %s",
    (state) => {
      expect(parseControlData(text.replace("shut down", state)).isShutDown).toBe(false);
    },
  );
});

describe("the reason of a failed upgrade", () => {
  it("is what follows the last check that succeeded", async () => {
    const stdout = `Performing Consistency Checks
-----------------------------
Checking cluster versions                                     ok
Checking for prepared transactions                            fatal

The source cluster contains prepared transactions
Failure, exiting
`;
    expect(await upgradeProblem({ stdout, stderr: "" })).toBe(
      "Checking for prepared transactions; The source cluster contains prepared transactions",
    );
  });

  it("has the first lines of the files that it names", async () => {
    const folder = await mkdtemp(join(tmpdir(), "upgrade-"));
    try {
      const file = join(folder, "loadable_libraries.txt");
      await writeFile(file, `could not load library "$libdir/old": not found\nIn database: app\n${"more\n".repeat(20)}`);
      const stdout = `Checking data type usage   ok\nChecking for presence of required libraries   fatal\n\nA list is in the file:\n    ${file}\n`;
      expect(await upgradeProblem({ stdout, stderr: "" })).toBe(
        'Checking for presence of required libraries; A list is in the file:; could not load library "$libdir/old": not found; In database: app; more; more; more',
      );
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

import { expect, test } from "vitest";
import { LeadershipReport } from "./leadership-report.ts";

function report(families: number) {
  const lines: string[] = [];
  return { lines, report: new LeadershipReport(families, (line) => lines.push(line)) };
}

test("says ready when every family is up and leads, and not before", () => {
  const { lines, report: leaders } = report(2);
  leaders.changed("robots", { kind: "leading" });
  leaders.started("robots", ["a broker"]);
  leaders.started("mpi", []);
  expect(lines).toEqual(["robots\tleading", "robots\ta broker"]);
  leaders.changed("mpi", { kind: "leading" });
  expect(lines.slice(2)).toEqual(["mpi\tleading", "ready"]);
});

test("says standby once while one waits for its lease, with who has it, and ready when that leads too", () => {
  const { lines, report: leaders } = report(2);
  leaders.started("robots", []);
  leaders.started("mpi", []);
  leaders.changed("robots", { kind: "leading" });
  leaders.changed("mpi", { kind: "standby", holder: "other" });
  leaders.changed("mpi", { kind: "standby" });
  leaders.changed("mpi", { kind: "leading" });
  expect(lines).toEqual([
    "robots\tleading",
    "mpi\tstandby: other holds the lease",
    "standby",
    "mpi\tstandby: nobody holds the lease",
    "mpi\tleading",
    "ready",
  ]);
});

test("tells of servers that start when the family leads", () => {
  const { lines, report: leaders } = report(1);
  const servers = ["every replica's"];
  leaders.started("robots", servers);
  servers.push("the leader's");
  leaders.changed("robots", { kind: "leading" });
  expect(lines).toEqual(["robots\tevery replica's", "robots\tthe leader's", "robots\tleading", "ready"]);
});

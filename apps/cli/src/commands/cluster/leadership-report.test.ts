import { expect, test } from "vitest";
import { LeadershipReport } from "./leadership-report.ts";

function report(operators: number) {
  const lines: string[] = [];
  return { lines, report: new LeadershipReport(operators, (line) => lines.push(line)) };
}

test("reports ready only once every operator has started and leads", () => {
  const { lines, report: leaders } = report(2);
  leaders.changed("robots", { kind: "leading" });
  leaders.started("robots", ["a broker"]);
  leaders.started("mpi", []);
  expect(lines).toEqual(["robots\tleading", "robots\ta broker"]);
  leaders.changed("mpi", { kind: "leading" });
  expect(lines.slice(2)).toEqual(["mpi\tleading", "ready"]);
});

test("reports standby with the lease holder while an operator waits, then ready once it leads", () => {
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
    "mpi\tstandby: the lease has no holder",
    "mpi\tleading",
    "ready",
  ]);
});

test("prints the servers that start when the operator leads", () => {
  const { lines, report: leaders } = report(1);
  const servers = ["every replica's"];
  leaders.started("robots", servers);
  servers.push("the leader's");
  leaders.changed("robots", { kind: "leading" });
  expect(lines).toEqual(["robots\tevery replica's", "robots\tthe leader's", "robots\tleading", "ready"]);
});

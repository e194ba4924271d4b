import { describe, expect, it } from "vitest";
import { builtinKinds } from "../registry/builtin-kinds.ts";
import { noReviews } from "../registry/testing/crd-samples.ts";
import { scaleResource } from "./scale-table.ts";
import { toTable } from "./table.ts";

const deployments = builtinKinds({ clock: { now: () => 0 }, reviews: noReviews }).find(
  ({ plural }) => plural === "deployments",
);

describe("the Table of a Scale", () => {
  it("shows requested and existing replicas, and the age", () => {
    if (deployments === undefined) throw new TypeError("deployments are not served");
    const scale = {
      apiVersion: "autoscaling/v1",
      kind: "Scale",
      metadata: { name: "d", creationTimestamp: "2030-01-01T00:00:00Z" },
      spec: { replicas: 3 },
      status: { replicas: 2 },
    };
    const now = Date.parse("2030-01-01T00:00:05Z");
    const { columnDefinitions, rows } = toTable(scaleResource(deployments), [scale], { includeObject: "None", now });
    expect(columnDefinitions.map(({ name }) => name)).toEqual(["Name", "Desired", "Available", "Age"]);
    expect(rows.map(({ cells }) => cells)).toEqual([["d", 3, 2, "5s"]]);
  });
});

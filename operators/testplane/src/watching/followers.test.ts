import { Pod } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import { Followers } from "./followers.ts";
import type { WatchedObject } from "./watch-set.ts";

const pod = (name: string, labels: Record<string, string> = {}): WatchedObject =>
  ({ apiVersion: "v1", kind: "Pod", metadata: { name, labels } }) as WatchedObject;
const request = (name: string) => ({ namespace: "default", name });
const target = { type: Pod, namespace: "default" };
const isBlue = ({ metadata }: WatchedObject): boolean => metadata.labels?.["colour"] === "blue";

describe("the tests that a change concerns", () => {
  it("are those that follow the object by name", () => {
    const followers = new Followers();
    let asked = 0;
    for (let index = 0; index < 1_000; index++)
      followers.set(`t${index}`, request(`t${index}`), [{ ...target, name: `p${index % 500}` }]);
    followers.set("other", request("other"), [{ ...target, concerns: () => asked++ < 0 }]);
    expect(followers.concernedBy("p7", undefined, pod("p7"))).toEqual([request("t7"), request("t507")]);
    expect(asked).toBe(1);
  });

  it("include those whose selector matched before the change or matches after it", () => {
    const followers = new Followers();
    followers.set("blue", request("blue"), [{ ...target, concerns: isBlue }]);
    followers.set("all", request("all"), [target]);
    const names = (before: WatchedObject | undefined, after: WatchedObject | undefined) =>
      followers.concernedBy("p", before, after).map(({ name }) => name);
    expect(names(undefined, pod("p", { colour: "red" }))).toEqual(["all"]);
    expect(names(pod("p", { colour: "red" }), pod("p", { colour: "blue" }))).toEqual(["blue", "all"]);
    expect(names(pod("p", { colour: "blue" }), pod("p", { colour: "red" }))).toEqual(["blue", "all"]);
    expect(names(pod("p", { colour: "blue" }), undefined)).toEqual(["blue", "all"]);
  });

  it("are named once, and no longer after they stopped following", () => {
    const followers = new Followers();
    followers.set("a", request("a"), [{ ...target, name: "p" }, target]);
    expect(followers.concernedBy("p", undefined, pod("p"))).toEqual([request("a")]);
    followers.set("a", request("a"), [{ ...target, name: "q" }]);
    expect(followers.concernedBy("p", undefined, pod("p"))).toEqual([]);
    expect(followers.concernedBy("q", undefined, pod("q"))).toEqual([request("a")]);
    followers.delete("a");
    expect(followers.concernedBy("q", undefined, pod("q"))).toEqual([]);
    expect(followers.size).toBe(0);
  });
});

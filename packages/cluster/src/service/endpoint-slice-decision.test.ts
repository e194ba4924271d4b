import { Endpoints, EndpointSlice, Pod, Service } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { decideEndpointSlices } from "./endpoint-slice-decision.ts";
import { decideEndpoints, decideOrphanedEndpoints } from "./endpoints-decision.ts";

function start(spec: object = {}): World {
  const world = new World();
  const ports = [{ name: "web", port: 80, targetPort: "http" }];
  world.create(Service, {
    metadata: { name: "s", labels: { team: "a" } },
    spec: { clusterIP: "10.0.0.1", selector: { app: "a" }, ports, ...spec },
  });
  return world;
}
function pod(world: World, name: string, ready = true, containerPort = 8080, spec: object = {}): void {
  const containers = [{ name: "c", ports: [{ name: "http", containerPort }] }];
  world.create(Pod, { metadata: { name }, spec: { nodeName: "n", containers, ...spec } });
  world.setPod(name, "Running", ready, { podIP: `127.0.1.${world.list(Pod).length}` });
}
function settle(world: World): void {
  const service = world.get(Service, "s");
  world.settle(() => ({ writes: decideEndpointSlices({ service, pods: world.list(Pod), slices: world.list(EndpointSlice) }) }));
  world.settle(() => ({ writes: decideEndpoints(service, world.list(Pod), world.list(Endpoints)[0]) }));
}
const conditions = (world: World) =>
  Object.fromEntries(
    world.list(EndpointSlice).flatMap(({ endpoints }) => endpoints.map((one) => [one.targetRef?.name ?? "", one.conditions])),
  );

describe("the endpoints of a Service", () => {
  test("contain every Pod with an address, with its conditions", () => {
    const world = start();
    pod(world, "ready");
    pod(world, "unready", false);
    pod(world, "ends");
    world.delete(Pod, "ends", true);
    pod(world, "over");
    world.setPod("over", "Succeeded");
    world.create(Pod, { metadata: { name: "unplaced" }, spec: { containers: [] } });
    settle(world);
    expect(conditions(world)).toEqual({
      ready: { ready: true, serving: true, terminating: false },
      unready: { ready: false, serving: false, terminating: false },
      ends: { ready: false, serving: true, terminating: true },
    });
    expect(world.list(EndpointSlice)).toMatchObject([
      {
        metadata: {
          labels: {
            team: "a",
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
          },
          ownerReferences: [{ kind: "Service", name: "s", controller: true }],
        },
        addressType: "IPv4",
        ports: [{ name: "web", port: 8080, protocol: "TCP" }],
      },
    ]);
    expect(world.get(Endpoints, "s").subsets).toMatchObject([
      {
        addresses: [{ ip: "127.0.1.1", nodeName: "n", targetRef: { kind: "Pod", name: "ready" } }],
        notReadyAddresses: [{ ip: "127.0.1.2" }],
        ports: [{ name: "web", port: 8080, protocol: "TCP" }],
      },
    ]);
  });

  test("are all ready with publishNotReadyAddresses", () => {
    const world = start({ publishNotReadyAddresses: true });
    pod(world, "unready", false);
    settle(world);
    expect(conditions(world)).toEqual({ unready: { ready: true, serving: false, terminating: false } });
    expect(world.get(Endpoints, "s").subsets?.[0]?.addresses).toHaveLength(1);
  });

  test("of a Service without Pods are one empty slice, which is reused when Pods appear", () => {
    const world = start();
    settle(world);
    expect(world.list(EndpointSlice)).toMatchObject([{ endpoints: [], ports: [] }]);
    pod(world, "a");
    settle(world);
    expect(world.list(EndpointSlice)).toMatchObject([{ endpoints: [{ targetRef: { name: "a" } }] }]);
    world.delete(Pod, "a");
    settle(world);
    expect(world.list(EndpointSlice)).toMatchObject([{ endpoints: [] }]);
    expect(world.get(Endpoints, "s").subsets).toEqual([]);
  });

  test("of a headless Service carry host names and the headless label", () => {
    const world = start({ clusterIP: "None" });
    pod(world, "a", true, 8080, { hostname: "db-0", subdomain: "s" });
    settle(world);
    const [slice] = world.list(EndpointSlice);
    expect(slice?.endpoints[0]?.hostname).toBe("db-0");
    expect(slice?.metadata.labels?.["service.kubernetes.io/headless"]).toBe("");
  });

  test("are split by the number of a named port", () => {
    const world = start();
    pod(world, "old", true, 8080);
    pod(world, "new", true, 9090);
    settle(world);
    expect(world.list(EndpointSlice).map(({ ports }) => ports?.[0]?.port)).toEqual([8080, 9090]);
  });

  test("are at most 100 per slice, and a change of one Pod writes one slice", () => {
    const world = start();
    for (let index = 0; index < 250; index++) pod(world, `p${index}`);
    settle(world);
    expect(world.list(EndpointSlice).map(({ endpoints }) => endpoints.length)).toEqual([100, 100, 50]);
    world.setPod("p120", "Running", false);
    const observed = { service: world.get(Service, "s"), pods: world.list(Pod), slices: world.list(EndpointSlice) };
    expect(decideEndpointSlices(observed)).toHaveLength(1);
  });

  test("are deleted with the Service unless a user created them", () => {
    const world = start();
    settle(world);
    expect(decideOrphanedEndpoints(world.get(Endpoints, "s"))).toHaveLength(1);
    world.create(Endpoints, { metadata: { name: "own" } });
    expect(decideOrphanedEndpoints(world.get(Endpoints, "own"))).toEqual([]);
  });
});

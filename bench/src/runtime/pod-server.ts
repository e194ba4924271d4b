import { createServer, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";

/** An API server with precomputed Pods, so that only its clients are measured. */
export interface PodServer {
  readonly url: string;
  /** Size of one Pod as JSON. */
  readonly podBytes: number;
  stop(): Promise<void>;
}

/**
 * Serves `pods` Pods as a list (with `limit` and `continue`). After `POST /go`, a watch from the list's version gets `events`
 * changes as fast as it reads them, and then stays open without bookmarks.
 */
export async function startPodServer(pods: number, events: number): Promise<PodServer> {
  const items = Array.from({ length: pods }, (_, index) => JSON.stringify(podOf(index, index + 1)).replace(typeFields, "{"));
  const lines = Array.from(
    { length: events },
    (_, index) =>
      `{"type":"MODIFIED","object":${JSON.stringify(podOf(index % pods, pods + index + 1, Math.floor(index / pods) + 1))}}\n`,
  );
  let go: () => void = () => {};
  const started = new Promise<void>((resolve) => {
    go = resolve;
  });
  const sendEvents = async (response: ServerResponse): Promise<void> => {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    await started;
    for (let from = 0; from < lines.length; from += 32) {
      if (!response.write(lines.slice(from, from + 32).join(""))) await once(response, "drain");
    }
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://pods");
    if (request.method === "POST") {
      go();
      response.end("{}");
    } else if (["true", "1"].includes(url.searchParams.get("watch") ?? "")) {
      sendEvents(response).catch(() => response.destroy());
    } else {
      const start = Number(url.searchParams.get("continue") ?? 0);
      const end = Math.min(start + Number(url.searchParams.get("limit") ?? pods), pods);
      const more = end < pods ? `,"continue":"${end}"` : "";
      response.writeHead(200, { "content-type": "application/json" });
      const head = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"${pods}"${more}},"items":[`;
      response.end(`${head}${items.slice(start, end).join(",")}]}`);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    podBytes: Buffer.byteLength(items[0] ?? ""),
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** Servers omit these fields in the items of a list. */
const typeFields = /^\{"kind":"Pod","apiVersion":"v1",/;

const timeOf = (second: number): string => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString().replace(".000", "");
/** Seconds between two changes of a Pod. */
const pace = 10_000;

const podSpec = {
  containers: [
    {
      name: "web",
      image: "registry.example.com/web:1.27.3",
      ports: [{ containerPort: 8080, protocol: "TCP" }],
      env: [{ name: "MODE", value: "production" }],
      resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "256Mi" } },
      terminationMessagePath: "/dev/termination-log",
      terminationMessagePolicy: "File",
      imagePullPolicy: "IfNotPresent",
    },
  ],
  restartPolicy: "Always",
  terminationGracePeriodSeconds: 30,
  dnsPolicy: "ClusterFirst",
  serviceAccountName: "default",
  schedulerName: "default-scheduler",
};

/** A realistic Pod of a Deployment: about 2 kB, a third of it `managedFields`. Its readiness changes in every round. */
function podOf(index: number, version: number, round = 0): object {
  const name = `web-5d9c7b6f4d-${index.toString(36).padStart(5, "0")}`;
  const time = timeOf(index);
  const changed = timeOf(index + round * pace);
  const manager = (field: string, subresource?: string): object => ({
    manager: field === "f:status" ? "kubelet" : "kube-controller-manager",
    operation: "Update",
    apiVersion: "v1",
    time: subresource === undefined ? time : changed,
    fieldsType: "FieldsV1",
    fieldsV1: { [field]: { "f:containers": { 'k:{"name":"web"}': { ".": {}, "f:image": {}, "f:ports": {} } } } },
    ...(subresource === undefined ? {} : { subresource }),
  });
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name,
      generateName: "web-5d9c7b6f4d-",
      namespace: `team-${index % 50}`,
      uid: `0b1f9c1e-7a55-4c7e-9d39-${index.toString(16).padStart(12, "0")}`,
      resourceVersion: String(version),
      creationTimestamp: time,
      labels: { app: "web", "pod-template-hash": "5d9c7b6f4d", tier: "front" },
      ownerReferences: [
        {
          apiVersion: "apps/v1",
          kind: "ReplicaSet",
          name: "web-5d9c7b6f4d",
          uid: "3a5e5d0c-1111-4222-8333-444455556666",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: [manager("f:spec"), manager("f:status", "status")],
    },
    spec: { ...podSpec, nodeName: `node-${index % 100}` },
    status: {
      phase: "Running",
      conditions: ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => ({
        type,
        status: round % 2 === 1 && type.endsWith("Ready") ? "False" : "True",
        lastTransitionTime: type.endsWith("Ready") ? changed : time,
      })),
      hostIP: `10.0.${index % 100}.1`,
      podIP: `10.1.${Math.floor(index / 250) % 250}.${index % 250}`,
      startTime: time,
      qosClass: "Burstable",
    },
  };
}

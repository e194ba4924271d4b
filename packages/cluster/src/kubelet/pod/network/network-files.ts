import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseResolvConf, resolvConf } from "../../../cluster-dns/resolv-conf.ts";
import { clusterDomain } from "../../../cluster-dns/name-index.ts";
import type { NodeContext } from "../../node-context.ts";
import { aliasLines, podHeader } from "../../node/hosts-files.ts";
import type { Mount } from "../../volumes/mount-plan.ts";
import { hasNetwork } from "./pod-addresses.ts";
import type { PodView } from "../pod-view.ts";

/**
 * Writes the files by which a Pod with a network namespace resolves names: /etc/hosts with its own lines only, and /etc/resolv.conf.
 * Without cluster DNS, and for other Pods, there are none.
 */
export async function networkFiles(node: NodeContext, pod: PodView, podIP: string): Promise<readonly Mount[]> {
  if (node.clusterDns === undefined || !hasNetwork(node, pod)) return [];
  const folder = join(node.podsDir, pod.metadata.uid ?? "", "network");
  await mkdir(folder, { recursive: true, mode: 0o755 });
  const machine = parseResolvConf(await readFile("/etc/resolv.conf", "utf8").catch(() => ""));
  const texts = {
    hosts: podHosts(pod, podIP),
    "resolv.conf": resolvConf(pod.metadata.namespace ?? "", pod.spec, node.clusterDns, machine),
  };
  return Promise.all(
    Object.entries(texts).map(async ([name, text]) => {
      const source = join(folder, name);
      // Other containers of the Pod may have mounted the file.
      if ((await readFile(source, "utf8").catch(() => undefined)) !== text) await writeFile(source, text, { mode: 0o644 });
      return { source, path: `/etc/${name}`, readOnly: true };
    }),
  );
}

/** The lines of a Pod's own names, as the kubelet writes them. */
export function podHosts({ metadata, spec }: PodView, podIP: string): string {
  const { hostname = metadata.name ?? "", subdomain = "", hostAliases = [] } = spec;
  const full = subdomain === "" ? [] : [`${hostname}.${subdomain}.${metadata.namespace ?? ""}.svc.${clusterDomain}`];
  const lines = [
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
    [podIP, ...full, hostname].join("\t"),
  ];
  return `${podHeader}${lines.join("\n")}\n${aliasLines(hostAliases)}`;
}

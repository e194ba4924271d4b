/** Whether a Pod mounts a path of the machine. */
export function usesHostPath({ volumes = [] }: { readonly volumes?: readonly object[] }): boolean {
  return volumes.some((volume) => "hostPath" in volume && volume.hostPath !== undefined);
}

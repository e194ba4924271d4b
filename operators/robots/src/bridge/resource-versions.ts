/** Whether resourceVersion `a` is later than `b`. Both are decimal numbers of any length. */
export function isLater(a: string | undefined, b: string | undefined): boolean {
  const [left, right] = [a ?? "", b ?? ""];
  return left.length === right.length ? left > right : left.length > right.length;
}

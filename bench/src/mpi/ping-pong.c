/* Prints the one-way times of messages of 8 B and 1 MiB between two ranks, in microseconds: the lowest of up to 50 rounds in a second. */
#include <mpi.h>
#include <stdio.h>

static char buffer[1 << 20];

static double one_way_us(int rank, int bytes, int trips)
{
  double best = 1e9, end = MPI_Wtime() + 1;
  for (int round = 0, continues; round < 50; round++) {
    continues = MPI_Wtime() < end;
    MPI_Bcast(&continues, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!continues && round > 0) break;
    double start = MPI_Wtime();
    for (int trip = 0; trip < trips; trip++) {
      if (rank == 0) {
        MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
      }
    }
    double time = (MPI_Wtime() - start) * 1e6 / (2.0 * trips);
    if (time < best) best = time;
  }
  return best;
}

int main(int argc, char **argv)
{
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double small = one_way_us(rank, 8, 100);
  double large = one_way_us(rank, sizeof buffer, 5);
  if (rank == 0) printf("times %.3f %.3f\n", small, large);
  MPI_Finalize();
  return 0;
}

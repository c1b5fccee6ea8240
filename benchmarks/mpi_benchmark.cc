// The collectives of runtime_benchmark.cc through MPI, with the same rounds and the same table.
// Usage: mpirun -n PROCESSES mpi_benchmark [-b BYTES] [-e BYTES] [-f FACTOR] [-r ROUNDS] [-o OP[,OP...]]
#include <mpi.h>

#include "benchmarks/samples.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bench::Measure(
      bench::Read(argc, argv), rank, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&](bench::Op op, char* operand, char* result, size_t bytes) {
        const int size = static_cast<int>(bytes), part = size / ranks / 4 * 4;
        switch (op) {
          case bench::Op::kPermute:
            MPI_Sendrecv(operand, size, MPI_BYTE, (rank + 1) % ranks, 0, result, size, MPI_BYTE,
                         (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
          case bench::Op::kAllReduce:
            MPI_Allreduce(operand, result, size / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            break;
          case bench::Op::kAllGather:
            MPI_Allgather(operand, part, MPI_BYTE, result, part, MPI_BYTE, MPI_COMM_WORLD);
            break;
          case bench::Op::kReduceScatter:
            MPI_Reduce_scatter_block(operand, result, part / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            break;
          default:
            MPI_Alltoall(operand, part, MPI_BYTE, result, part, MPI_BYTE, MPI_COMM_WORLD);
        }
      });
  MPI_Finalize();
  return 0;
}
